// Products with a weight on a GPU. Who computes which product is found out before the first step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/gemm/choice.h"
#include "kernels/cuda/gemm/library_gemm.h"
#include "kernels/cuda/gemm/skinny_gemm.h"
#include "kernels/device/tensor_view.h"

namespace thresher {

struct CudaGemmOptions {
  // One algorithm of cuBLASLt for each weight whatever the number of rows of input, without splits
  // of the sum, so that a row's bits do not depend on its batch. Nothing is searched.
  bool batch_invariant = false;
  std::string choices_path = {};  // of the file that keeps choices; empty: none
  double search_seconds = 30;
  std::function<void(std::string_view)> report =
      nullptr;  // gets a line of key=value; null: nobody listens
};

// bf16 weights take bf16 input; f32 weights take f32 input, without TF32. Sums are f32; output is
// f32 or, of bf16 weights, bf16, to which cuBLASLt may round product and bias before it adds them.
// One thread and one stream at a time.
class CudaGemm final {
 public:
  static absl::StatusOr<std::unique_ptr<CudaGemm>> Create(CudaDevice& device,
                                                          CudaGemmOptions options);

  // The weight's shape will be multiplied; Reserve finds out by whom.
  void Announce(const CudaWeight& weight);
  // For products with at most `max_rows` rows of input. Takes the file's choices, times candidates
  // for the rest (seconds, in device memory that it gives back), and writes the file anew. Where
  // there is no room or no time to try, the library's first guess serves, and the report says so.
  // Unimplemented if the library has no algorithm for a shape.
  absl::Status Reserve(std::int64_t max_rows);

  // out = x · weightᵀ + bias; the arguments of TransformerOps::MatMul, checked here.
  absl::Status MatMul(const TensorView& x, const CudaWeight& weight, const TensorView& bias,
                      const TensorView& out, cudaStream_t stream);

 private:
  struct Tally;  // of a Reserve

  CudaGemm(CudaDevice& device, CudaGemmOptions options, std::unique_ptr<LibraryGemm> library,
           SkinnyGemm skinny)
      : device_(device),
        options_(std::move(options)),
        library_(std::move(library)),
        skinny_(skinny) {}
  std::string Machine() const;
  void TakeFile(const GemmChoices& file, Tally& tally);
  absl::Status Search(std::int64_t max_rows, Tally& tally);
  // The choice for a product, the library's first guess if there has been none.
  absl::StatusOr<const GemmChoice*> ChoiceOf(const GemmShape& shape, std::int64_t n);

  CudaDevice& device_;
  const CudaGemmOptions options_;
  std::unique_ptr<LibraryGemm> library_;
  SkinnyGemm skinny_;
  std::set<GemmShape> announced_;
  GemmChoices choices_;
};

}  // namespace thresher
