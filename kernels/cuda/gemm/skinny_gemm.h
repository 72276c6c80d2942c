// Products with few rows of input by our own kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/attention/tensor_map.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/gemm/config.h"
#include "kernels/cuda/gemm/product.h"

namespace thresher {

class SkinnyGemm final {
 public:
  // FailedPrecondition if the driver lacks what the kernel needs.
  static absl::StatusOr<SkinnyGemm> Create(const CudaDevice& device);

  // The configurations worth a try; none if the kernel does not take the product.
  std::vector<SkinnyConfig> Candidates(const GemmShape& shape, std::int64_t n) const;

  // A bias is added in f32. Allocates nothing, waits for nothing. InvalidArgument if the
  // configuration has no room for so many rows.
  absl::Status Run(const GemmShape& shape, const GemmCall& call, const SkinnyConfig& config,
                   cudaStream_t stream) const;

 private:
  SkinnyGemm(EncodeTensorMapFunction* encode, int num_processors, int bytes_of_processor)
      : encode_(encode), num_processors_(num_processors), bytes_of_processor_(bytes_of_processor) {}

  EncodeTensorMapFunction* encode_;
  int num_processors_, bytes_of_processor_;
};

}  // namespace thresher
