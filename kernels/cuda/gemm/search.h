// Which of several ways to compute a product is the fastest on this GPU: it tries.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/gemm/choice.h"
#include "kernels/cuda/gemm/library_gemm.h"
#include "kernels/cuda/gemm/skinny_gemm.h"
#include "kernels/device/device.h"

namespace thresher {

// Products are timed as a step runs them: replayed from a graph, every one with another weight, so
// that weights come from memory and not from the second-level cache. Holds device memory of its own
// until it goes away. One thread.
class GemmSearch final {
 public:
  // For weights, inputs and outputs up to so many bytes. ResourceExhausted if there is no room.
  static absl::StatusOr<std::unique_ptr<GemmSearch>> Create(Device& device, LibraryGemm& library,
                                                            const SkinnyGemm& skinny,
                                                            std::int64_t weight_bytes,
                                                            std::int64_t x_bytes,
                                                            std::int64_t out_bytes);
  GemmSearch(const GemmSearch&) = delete;
  GemmSearch& operator=(const GemmSearch&) = delete;
  ~GemmSearch();

  // The fastest of the library's first kLibraryCandidates and our kernel's configurations, for n
  // rows of input, with a small kernel between products as in a step. Errors as LibraryGemm::Find,
  // or the device's.
  absl::StatusOr<GemmChoice> Fastest(const GemmShape& shape, std::int64_t n);

  static constexpr int kLibraryCandidates = 8;
  // All of them, and the time of one product, that of what stands between them included.
  absl::StatusOr<std::vector<GemmChoice>> Candidates(const GemmShape& shape, std::int64_t n) const;
  enum class Between { kNothing, kSmallKernel };
  absl::StatusOr<float> MillisecondsOf(const GemmShape& shape, std::int64_t n,
                                       const GemmChoice& choice, Between between);

 private:
  GemmSearch(LibraryGemm& library, const SkinnyGemm& skinny) : library_(library), skinny_(skinny) {}
  LibraryGemm& library_;
  const SkinnyGemm& skinny_;
  DeviceBuffer weights_, x_, out_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace thresher
