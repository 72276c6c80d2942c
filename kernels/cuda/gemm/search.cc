#include "kernels/cuda/gemm/search.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/gemm/search_kernels.h"

namespace thresher {
namespace {

// Three times the second-level cache of an H200: weights in turn from so much memory come from
// there.
constexpr std::int64_t kRotatedBytes = std::int64_t{192} << 20;
constexpr int kMinCalls = 6, kMaxCalls = 320;
constexpr int kReplays = 3;  // beside the first, which warms up

std::int64_t RoundUp(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

absl::StatusOr<std::unique_ptr<GemmSearch>> GemmSearch::Create(Device& device, LibraryGemm& library,
                                                               const SkinnyGemm& skinny,
                                                               std::int64_t weight_bytes,
                                                               std::int64_t x_bytes,
                                                               std::int64_t out_bytes) {
  std::unique_ptr<GemmSearch> search(new GemmSearch(library, skinny));
  const auto allocate = [&](std::int64_t bytes, DeviceBuffer& buffer) {
    absl::StatusOr<DeviceBuffer> memory = device.Allocate(static_cast<std::size_t>(bytes));
    if (memory.ok()) buffer = *std::move(memory);
    return memory.status();
  };
  absl::Status status = allocate(std::max(RoundUp(weight_bytes), kRotatedBytes), search->weights_);
  if (status.ok()) status = allocate(x_bytes, search->x_);
  if (status.ok()) status = allocate(std::max<std::int64_t>(out_bytes, 128), search->out_);
  if (!status.ok()) return status;
  cudaError_t error = cudaStreamCreateWithFlags(&search->stream_, cudaStreamNonBlocking);
  if (error == cudaSuccess) error = cudaEventCreate(&search->begin_);
  if (error == cudaSuccess) error = cudaEventCreate(&search->end_);
  for (const DeviceBuffer* buffer : {&search->weights_, &search->x_, &search->out_}) {
    if (error != cudaSuccess) break;
    error = LaunchFillRandom(buffer->get(), static_cast<std::int64_t>(buffer->num_bytes() / 2),
                             search->stream_);
  }
  if (error == cudaSuccess) error = cudaStreamSynchronize(search->stream_);
  if (error != cudaSuccess) return CudaStatus(error, "preparing the search for products");
  return search;
}

GemmSearch::~GemmSearch() {
  if (end_ != nullptr) cudaEventDestroy(end_);
  if (begin_ != nullptr) cudaEventDestroy(begin_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

absl::StatusOr<float> GemmSearch::MillisecondsOf(const GemmShape& shape, std::int64_t n,
                                                 const GemmChoice& choice, Between between) {
  const std::int64_t weight_bytes = RoundUp(shape.rows * shape.cols * SizeOf(shape.dtype));
  const std::int64_t num_weights = static_cast<std::int64_t>(weights_.num_bytes()) / weight_bytes;
  // Calls that take long are few.
  const auto calls = static_cast<int>(
      std::clamp<std::int64_t>(kRotatedBytes / std::max<std::int64_t>(weight_bytes, 1), kMinCalls,
                               n > kSkinnyMaxRows ? kMinCalls : kMaxCalls));
  GemmCall call;
  call.x = x_.get();
  call.out = out_.get();
  call.n = n;
  absl::Status status = CudaStatus(
      cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  if (!status.ok()) return status;
  for (int i = 0; i < calls && status.ok(); ++i) {
    call.weight = weights_.bytes_at(i % num_weights * weight_bytes);
    if (between == Between::kSmallKernel) {
      status = CudaStatus(LaunchInBetween(static_cast<float*>(out_.get()), stream_), "in between");
    }
    if (!status.ok()) break;
    if (const auto* config = std::get_if<SkinnyConfig>(&choice)) {
      status = skinny_.Run(shape, call, *config, stream_);
    } else {
      status = library_.Run(shape, call, std::get<cublasLtMatmulAlgo_t>(choice), stream_);
    }
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  cudaError_t error = cudaStreamEndCapture(stream_, &graph);
  float best = 0;
  if (status.ok() && error == cudaSuccess) error = cudaGraphInstantiate(&replay, graph, 0);
  if (status.ok() && error == cudaSuccess) error = cudaGraphLaunch(replay, stream_);
  for (int i = 0; i < kReplays && status.ok() && error == cudaSuccess; ++i) {
    float took = 0;
    cudaEventRecord(begin_, stream_);
    error = cudaGraphLaunch(replay, stream_);
    cudaEventRecord(end_, stream_);
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream_);
    if (error == cudaSuccess) error = cudaEventElapsedTime(&took, begin_, end_);
    best = i == 0 ? took : std::min(best, took);
  }
  if (replay != nullptr) cudaGraphExecDestroy(replay);
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (!status.ok()) return status;
  if (error != cudaSuccess) return CudaStatus(error, "timing a product");
  return best / static_cast<float>(calls);
}

absl::StatusOr<std::vector<GemmChoice>> GemmSearch::Candidates(const GemmShape& shape,
                                                               std::int64_t n) const {
  const absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> algorithms =
      library_.Find(shape, n, kLibraryCandidates);
  if (!algorithms.ok()) return algorithms.status();
  std::vector<GemmChoice> candidates(algorithms->begin(), algorithms->end());
  for (const SkinnyConfig& config : skinny_.Candidates(shape, n)) candidates.push_back(config);
  return candidates;
}

absl::StatusOr<GemmChoice> GemmSearch::Fastest(const GemmShape& shape, std::int64_t n) {
  const absl::StatusOr<std::vector<GemmChoice>> candidates = Candidates(shape, n);
  if (!candidates.ok()) return candidates.status();
  std::size_t fastest = 0;
  float least = 0;
  for (std::size_t i = 0; i < candidates->size(); ++i) {
    const absl::StatusOr<float> took =
        MillisecondsOf(shape, n, (*candidates)[i], Between::kSmallKernel);
    if (!took.ok()) return took.status();
    if (i > 0 && *took >= least) continue;
    fastest = i;
    least = *took;
  }
  return (*candidates)[fastest];
}

}  // namespace thresher
