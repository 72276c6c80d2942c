#include "tests/support/model_run.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <thread>
#include <utility>

#include "engine/attention/solo_attention.h"
#include "kernels/backend.h"
#include "tests/support/test_environment.h"

namespace thresher::testing {
namespace {

// NaNs: a read of what was never written cannot go unseen.
absl::Status SpoilCache(SoloAttention& attention, Device& device) {
  for (int i = 0; i < attention.cache_shape().num_layers; ++i) {
    const KvCacheLayer layer = attention.CacheOf(i);
    for (const TensorView& cache : {layer.k, layer.v}) {
      const std::vector<std::byte> nans(static_cast<std::size_t>(cache.num_bytes()),
                                        std::byte{0xff});
      const absl::Status status = device.CopyToDevice(nans.data(), cache.data, nans.size());
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

// The logits of one sequence, in steps of at most `step` rows. positions: 0, 1, …, as many or more.
absl::Status RunSequence(CausalLm& model, SoloAttention& attention,
                         std::span<const TokenId> token_ids,
                         std::span<const std::int32_t> positions, int step, Device& device,
                         Stream& stream, std::vector<float>& logits) {
  const int length = static_cast<int>(token_ids.size());
  const auto vocab = static_cast<std::size_t>(model.config().vocab_size);
  logits.resize(token_ids.size() * vocab);
  auto memory = device.Allocate(static_cast<std::size_t>(step) * vocab * sizeof(float));
  if (!memory.ok()) return memory.status();
  for (int first = 0; first < length; first += step) {
    const int rows = std::min(step, length - first);
    const auto begin = static_cast<std::size_t>(first), count = static_cast<std::size_t>(rows);
    absl::Status status = attention.Plan(first, rows, stream);
    if (!status.ok()) return status;
    status = model.Forward({.token_ids = token_ids.subspan(begin, count),
                            .positions = positions.subspan(begin, count),
                            .slot_mapping = attention.slot_mapping()},
                           attention, stream);
    if (!status.ok()) return status;
    status = model.ComputeLogits(
        positions.first(count),
        TensorView::Of(memory->get(), DType::kF32, rows, static_cast<std::int64_t>(vocab)), stream);
    if (!status.ok()) return status;
    if (status = stream.Synchronize(); !status.ok()) return status;
    status = device.CopyToHost(memory->get(), logits.data() + begin * vocab,
                               count * vocab * sizeof(float));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RunRank(const ModelFiles& files, std::span<const std::vector<TokenId>> sequences,
                     const ModelRunOptions& options, TensorParallelGroup& group,
                     std::vector<std::vector<float>>& logits) {
  const BackendOptions backend_options{.num_threads = options.num_ranks > 1 ? 1 : 2,
                                       .max_isa = TestMaxIsa(),
                                       .full_precision = options.full_precision,
                                       .gemm_search_seconds = 0};  // longer than the run
  auto backend = CreateBackend(options.device, 0, backend_options);
  if (!backend.ok()) return backend.status();
  (*backend)->BindThread();
  auto stream = (*backend)->device().CreateStream();
  if (!stream.ok()) return stream.status();
  std::size_t longest = 0;
  for (const std::vector<TokenId>& tokens : sequences) longest = std::max(longest, tokens.size());
  std::vector<std::int32_t> positions(longest);
  std::iota(positions.begin(), positions.end(), 0);
  const int length = static_cast<int>(longest);
  const int step = std::min(options.chunk, length);
  auto model =
      LoadCausalLm(files, **backend, group,
                   {.max_tokens = step, .max_logit_rows = step, .max_position = length}, nullptr);
  if (!model.ok()) return model.status();
  for (const std::vector<TokenId>& tokens : sequences) {
    auto attention = SoloAttention::Create(**model, **backend, options.kv_dtype, length);
    if (!attention.ok()) return attention.status();
    Device& device = (*backend)->device();
    absl::Status status = SpoilCache(**attention, device);
    if (!status.ok()) return status;
    logits.emplace_back();
    status =
        RunSequence(**model, **attention, tokens, positions, step, device, **stream, logits.back());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RankLogits> RunSequences(const ModelFiles& files,
                                        std::span<const std::vector<TokenId>> sequences,
                                        const ModelRunOptions& options) {
  auto groups = CreateInProcessGroup(options.num_ranks);
  RankLogits logits(groups.size());
  std::vector<absl::Status> statuses(groups.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < groups.size(); ++rank) {
    threads.emplace_back([&, rank] {
      statuses[rank] = RunRank(files, sequences, options, *groups[rank], logits[rank]);
      if (!statuses[rank].ok()) groups[rank]->Abort();
    });
  }
  for (std::thread& thread : threads) thread.join();
  // The rank that failed first says why; the others are only Unavailable.
  for (const absl::Status& status : statuses) {
    if (!status.ok() && !absl::IsUnavailable(status)) return status;
  }
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return logits;
}

absl::StatusOr<std::vector<std::vector<float>>> RunModel(const ModelFiles& files,
                                                         const std::vector<TokenId>& token_ids,
                                                         const ModelRunOptions& options) {
  auto logits = RunSequences(files, {&token_ids, 1}, options);
  if (!logits.ok()) return logits.status();
  std::vector<std::vector<float>> ranks;
  for (auto& rank : *logits) ranks.push_back(std::move(rank[0]));
  return ranks;
}

}  // namespace thresher::testing
