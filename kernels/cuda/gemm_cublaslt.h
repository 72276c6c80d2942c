// Products with a weight, on cuBLASLt. Which algorithm a product takes is found out before the
// first step.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/device/tensor_view.h"

namespace thresher {

// bf16 weights take bf16 input; f32 weights take f32 input, without TF32. Sums are f32; output is
// f32 or, of bf16 weights, bf16, to which a bias is rounded too before it is added. One thread at a
// time.
class CublasLtGemm final {
 public:
  // batch_invariant: one algorithm for each weight whatever the number of rows of input, without
  // splits of the sum, so that a row's bits do not depend on its batch.
  static absl::StatusOr<std::unique_ptr<CublasLtGemm>> Create(CudaDevice& device,
                                                              bool batch_invariant);
  CublasLtGemm(const CublasLtGemm&) = delete;
  CublasLtGemm& operator=(const CublasLtGemm&) = delete;
  ~CublasLtGemm();

  // The weight's shape will be multiplied; Reserve finds its algorithms.
  void Announce(const CudaWeight& weight);
  // For products with at most `max_rows` rows of input. Unimplemented if the library has no
  // algorithm for a shape.
  absl::Status Reserve(std::int64_t max_rows);

  // out = x · weightᵀ + bias; the arguments of TransformerOps::MatMul, checked here.
  absl::Status MatMul(const TensorView& x, const CudaWeight& weight, const TensorView& bias,
                      const TensorView& out, cudaStream_t stream);

 private:
  struct Shape {
    DType dtype = DType::kBF16;
    std::int64_t rows = 0, cols = 0;  // of the weight
    DType out = DType::kF32;
    auto operator<=>(const Shape&) const = default;
  };
  struct Product;  // cuBLASLt's description of one

  CublasLtGemm(CudaDevice& device, bool batch_invariant)
      : device_(device), batch_invariant_(batch_invariant) {}
  // Index into an algorithm table for `n` rows of input, and the n that stands for its bucket.
  static int BucketOf(std::int64_t n);
  static std::int64_t RowsOfBucket(int bucket);
  absl::StatusOr<cublasLtMatmulAlgo_t> Find(const Shape& shape, std::int64_t n) const;
  absl::StatusOr<const cublasLtMatmulAlgo_t*> AlgorithmFor(const Shape& shape, std::int64_t n);

  CudaDevice& device_;
  const bool batch_invariant_;
  cublasLtHandle_t handle_ = nullptr;
  DeviceBuffer workspace_;
  // By bucket; empty where none has been looked for.
  std::map<Shape, std::vector<std::unique_ptr<cublasLtMatmulAlgo_t>>> algorithms_;
};

}  // namespace thresher
