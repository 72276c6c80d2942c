#include "tests/support/model_run.h"

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

#include "kernels/backend.h"
#include "tests/support/solo_attention.h"
#include "tests/support/test_environment.h"

namespace thresher::testing {
namespace {

absl::StatusOr<std::vector<float>> RunRank(const ModelFiles& files,
                                           std::span<const TokenId> token_ids,
                                           const ModelRunOptions& options,
                                           TensorParallelGroup& group) {
  const BackendOptions backend_options{.num_threads = options.num_ranks > 1 ? 1 : 2,
                                       .max_isa = TestMaxIsa(),
                                       .full_precision = options.full_precision};
  auto backend = CreateBackend(DeviceKind::kCpu, 0, backend_options);
  if (!backend.ok()) return backend.status();
  (*backend)->BindThread();
  auto stream = (*backend)->device().CreateStream();
  if (!stream.ok()) return stream.status();
  const int length = static_cast<int>(token_ids.size());
  const int step = std::min(options.chunk, length);
  auto model =
      LoadCausalLm(files, **backend, group,
                   {.max_tokens = step, .max_logit_rows = step, .max_position = length}, nullptr);
  if (!model.ok()) return model.status();
  auto attention = SoloAttention::Create(**model, **backend, options.kv_dtype, length);
  if (!attention.ok()) return attention.status();

  const auto vocab = static_cast<std::size_t>(files.config().vocab_size);
  std::vector<float> logits(token_ids.size() * vocab);
  std::vector<std::int32_t> positions(token_ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  for (int first = 0; first < length; first += step) {
    const int rows = std::min(step, length - first);
    const auto begin = static_cast<std::size_t>(first), count = static_cast<std::size_t>(rows);
    absl::Status status = (*attention)->Plan(first, rows, **stream);
    if (!status.ok()) return status;
    const std::vector<std::int64_t> slots = (*attention)->SlotMapping();
    const BatchInputs inputs{.token_ids = token_ids.subspan(begin, count),
                             .positions = std::span(positions).subspan(begin, count),
                             .slot_mapping = slots};
    status = (*model)->Forward(inputs, **attention, **stream);
    if (!status.ok()) return status;
    status = (*model)->ComputeLogits(std::span(positions).first(count),
                                     TensorView::Of(logits.data() + begin * vocab, DType::kF32,
                                                    rows, static_cast<std::int64_t>(vocab)),
                                     **stream);
    if (!status.ok()) return status;
    if (status = (*stream)->Synchronize(); !status.ok()) return status;
  }
  return logits;
}

}  // namespace

absl::StatusOr<std::vector<std::vector<float>>> RunModel(const ModelFiles& files,
                                                         std::span<const TokenId> token_ids,
                                                         const ModelRunOptions& options) {
  auto groups = CreateInProcessGroup(options.num_ranks);
  std::vector<absl::StatusOr<std::vector<float>>> results(groups.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < groups.size(); ++rank) {
    threads.emplace_back([&, rank] {
      results[rank] = RunRank(files, token_ids, options, *groups[rank]);
      if (!results[rank].ok()) groups[rank]->Abort();
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::vector<float>> logits;
  // The rank that failed first says why; the others are only Unavailable.
  for (const auto& result : results) {
    if (!result.ok() && !absl::IsUnavailable(result.status())) return result.status();
  }
  for (auto& result : results) {
    if (!result.ok()) return result.status();
    logits.push_back(*std::move(result));
  }
  return logits;
}

}  // namespace thresher::testing
