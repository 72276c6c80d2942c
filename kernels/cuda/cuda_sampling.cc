#include "kernels/cuda/cuda_sampling.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "kernels/cpu/philox.h"
#include "kernels/cpu/sampling.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/ops/op_checks.h"

namespace thresher {
namespace {

// Puts the array behind what is packed, at a multiple of 16 bytes, and gives its offset.
template <typename T>
std::size_t Append(const std::vector<T>& values, std::vector<std::byte>& packed) {
  const std::size_t offset = (packed.size() + 15) / 16 * 16;
  packed.resize(offset + values.size() * sizeof(T));
  if (!values.empty()) {
    std::memcpy(packed.data() + offset, values.data(), values.size() * sizeof(T));
  }
  return offset;
}

template <typename T>
void AppendList(std::span<const T> list, std::vector<T>& all, std::int32_t& begin,
                std::int32_t& end) {
  begin = static_cast<std::int32_t>(all.size());
  all.insert(all.end(), list.begin(), list.end());
  end = static_cast<std::int32_t>(all.size());
}

}  // namespace

absl::Status CudaSampling::Sample(const TensorView& logits, std::span<const SamplingRow> rows,
                                  std::int32_t* drawn, std::span<SampledToken> out,
                                  cudaStream_t stream) {
  rows_.clear();
  counts_.clear();
  bias_.clear();
  banned_.clear();
  for (const SamplingRow& row : rows) {
    SamplingRowLaunch& launch = rows_.emplace_back();
    launch.draw = row.draw;
    launch.bad_field = BadField(row, logits.shape[1]);
    if (launch.bad_field != nullptr) continue;
    launch.temperature = row.temperature;
    launch.top_k = row.top_k;
    launch.top_p = row.top_p;
    launch.min_p = row.min_p;
    launch.repetition_penalty = row.repetition_penalty;
    launch.presence_penalty = row.presence_penalty;
    launch.frequency_penalty = row.frequency_penalty;
    launch.num_top_logprobs = row.num_top_logprobs;
    launch.uniform = UniformDraw(row.seed, row.choice_index, row.position);
    AppendList(row.counts, counts_, launch.counts_begin, launch.counts_end);
    AppendList(row.logit_bias, bias_, launch.bias_begin, launch.bias_end);
    AppendList(row.banned, banned_, launch.banned_begin, launch.banned_end);
  }
  return Run(logits, drawn, out, stream);
}

absl::Status CudaSampling::Score(const TensorView& logits, std::span<const std::int32_t> targets,
                                 std::span<const int> num_top, std::span<SampledToken> out,
                                 cudaStream_t stream) {
  rows_.clear();
  counts_.clear();
  bias_.clear();
  banned_.clear();
  for (std::size_t i = 0; i < targets.size(); ++i) {
    SamplingRowLaunch& launch = rows_.emplace_back();
    launch.bad_field = BadScoreField(targets[i], num_top[i], logits.shape[1]);
    launch.target = targets[i];
    launch.num_top_logprobs = num_top[i];
  }
  return Run(logits, nullptr, out, stream);
}

absl::Status CudaSampling::MakeRoom(std::size_t num_rows) {
  const std::size_t bytes = num_rows * sizeof(SampledToken);
  if (results_.num_bytes() >= bytes) return absl::OkStatus();
  const std::size_t capacity = std::bit_ceil(num_rows) * sizeof(SampledToken);
  absl::StatusOr<DeviceBuffer> results = device_.Allocate(capacity);
  if (!results.ok()) return results.status();
  results_ = *std::move(results);
  return absl::OkStatus();
}

absl::Status CudaSampling::Run(const TensorView& logits, std::int32_t* drawn,
                               std::span<SampledToken> out, cudaStream_t stream) {
  if (rows_.empty()) return absl::OkStatus();
  if (absl::Status status = MakeRoom(rows_.size()); !status.ok()) return status;
  packed_.clear();
  Append(rows_, packed_);
  const std::size_t counts = Append(counts_, packed_), bias = Append(bias_, packed_);
  const std::size_t banned = Append(banned_, packed_);
  const absl::StatusOr<const std::byte*> memory =
      arguments_.Of(std::span<const std::byte>(packed_), stream);
  if (!memory.ok()) return memory.status();
  SamplingLaunch launch;
  launch.logits = logits.as<float>();
  launch.rows = reinterpret_cast<const SamplingRowLaunch*>(*memory);
  launch.counts = reinterpret_cast<const TokenCount*>(*memory + counts);
  launch.bias = reinterpret_cast<const TokenBias*>(*memory + bias);
  launch.banned = reinterpret_cast<const std::int32_t*>(*memory + banned);
  launch.out = static_cast<SampledToken*>(results_.get());
  launch.drawn = drawn;
  launch.num_rows = static_cast<std::int32_t>(rows_.size());
  launch.vocab = static_cast<std::int32_t>(logits.shape[1]);
  cudaError_t error = LaunchSampling(launch, stream);
  if (error == cudaSuccess) {
    error = cudaMemcpyAsync(out.data(), results_.get(), rows_.size() * sizeof(SampledToken),
                            cudaMemcpyDeviceToHost, stream);
  }
  return CudaStatus(error, "sampling");
}

}  // namespace thresher
