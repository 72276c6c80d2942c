// Products by cuBLASLt.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/gemm/product.h"
#include "kernels/device/device.h"

namespace thresher {

// One thread and one stream at a time: products share a workspace.
class LibraryGemm final {
 public:
  // whole_sums: no algorithm that splits a sum.
  static absl::StatusOr<std::unique_ptr<LibraryGemm>> Create(Device& device, bool whole_sums);
  LibraryGemm(const LibraryGemm&) = delete;
  LibraryGemm& operator=(const LibraryGemm&) = delete;
  ~LibraryGemm();

  // The algorithms that the library expects to be fastest for n rows of input, best first; at least
  // one, at most `count`. Unimplemented if it has none.
  absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> Find(const GemmShape& shape, std::int64_t n,
                                                         int count) const;
  // Whether an algorithm that was found for another n, or in another process, serves this one.
  bool Serves(const GemmShape& shape, std::int64_t n, const cublasLtMatmulAlgo_t& algorithm) const;

  // A bias is rounded to the output's type before it is added, and so may the product be.
  absl::Status Run(const GemmShape& shape, const GemmCall& call,
                   const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream);

  std::size_t workspace_bytes() const { return workspace_.num_bytes(); }

 private:
  explicit LibraryGemm(bool whole_sums) : whole_sums_(whole_sums) {}

  const bool whole_sums_;
  cublasLtHandle_t handle_ = nullptr;
  DeviceBuffer workspace_;
};

}  // namespace thresher
