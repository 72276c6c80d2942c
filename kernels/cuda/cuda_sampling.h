// Sampling on a GPU: rows of the call to the kernel and tokens back, in one small copy each way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/sampling.h"
#include "kernels/cuda/upload_ring.h"
#include "kernels/device/tensor_view.h"

namespace thresher {

// Arguments have been checked. Allocates only while it grows.
class CudaSampling final {
 public:
  CudaSampling(CudaDevice& device, UploadRing& ring) : device_(device), arguments_(device, ring) {}

  // TransformerOps::Sample and ScoreTokens. `drawn` is the device's memory of draws.
  absl::Status Sample(const TensorView& logits, std::span<const SamplingRow> rows,
                      std::int32_t* drawn, std::span<SampledToken> out, cudaStream_t stream);
  absl::Status Score(const TensorView& logits, std::span<const std::int32_t> targets,
                     std::span<const int> num_top, std::span<SampledToken> out,
                     cudaStream_t stream);

 private:
  // Runs rows_ with the lists.
  absl::Status Run(const TensorView& logits, std::int32_t* drawn, std::span<SampledToken> out,
                   cudaStream_t stream);
  absl::Status MakeRoom(std::size_t num_rows);

  CudaDevice& device_;
  UploadedArray arguments_;
  DeviceBuffer results_;
  std::vector<SamplingRowLaunch> rows_;
  std::vector<TokenCount> counts_;
  std::vector<TokenBias> bias_;
  std::vector<std::int32_t> banned_;
  std::vector<std::byte> packed_;
};

}  // namespace thresher
