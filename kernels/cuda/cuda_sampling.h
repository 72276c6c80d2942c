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

// Arguments have been checked. Each call waits for the stream, as its tokens are what the host goes
// on with. Allocates only while it grows.
class CudaSampling final {
 public:
  CudaSampling(CudaDevice& device, UploadRing& ring) : device_(device), arguments_(device, ring) {}
  CudaSampling(const CudaSampling&) = delete;
  CudaSampling& operator=(const CudaSampling&) = delete;
  ~CudaSampling();

  // TransformerOps::Sample and ScoreTokens.
  absl::Status Sample(const TensorView& logits, std::span<const SamplingRow> rows,
                      std::span<SampledToken> out, cudaStream_t stream);
  absl::Status Score(const TensorView& logits, std::span<const std::int32_t> targets,
                     std::span<const int> num_top, std::span<SampledToken> out,
                     cudaStream_t stream);

 private:
  // Runs rows_ with the lists; bad_fields_ says which rows are not valid.
  absl::Status Run(const TensorView& logits, std::span<SampledToken> out, cudaStream_t stream);
  absl::Status MakeRoom(std::size_t num_rows);

  CudaDevice& device_;
  UploadedArray arguments_;
  DeviceBuffer results_;
  SampledToken* host_results_ = nullptr;  // page-locked, as many as results_ holds
  std::vector<SamplingRowLaunch> rows_;
  std::vector<const char*> bad_fields_;
  std::vector<TokenCount> counts_;
  std::vector<TokenBias> bias_;
  std::vector<std::int32_t> banned_;
  std::vector<std::byte> packed_;
};

}  // namespace thresher
