#include "engine/attention/evaluate/teacher_forcing.h"

#include <numeric>
#include <utility>

namespace thresher {

absl::StatusOr<std::unique_ptr<TeacherForcing>> TeacherForcing::Create(
    const ModelFiles& files, const TeacherForcingOptions& options) {
  std::unique_ptr<TeacherForcing> run(new TeacherForcing(options));
  run->group_ = CreateInProcessGroup(1);
  absl::StatusOr<std::unique_ptr<Backend>> backend =
      CreateBackend(DeviceKind::kCpu, 0, options.backend);
  if (!backend.ok()) return backend.status();
  run->backend_ = *std::move(backend);
  run->backend_->BindThread();
  absl::StatusOr<std::unique_ptr<Stream>> stream = run->backend_->device().CreateStream();
  if (!stream.ok()) return stream.status();
  run->stream_ = *std::move(stream);
  absl::StatusOr<std::unique_ptr<CausalLm>> model =
      LoadCausalLm(files, *run->backend_, *run->group_[0],
                   {.max_tokens = options.chunk_tokens,
                    .max_logit_rows = kLogitRows,
                    .max_position = options.max_length},
                   {});
  if (!model.ok()) return model.status();
  run->model_ = *std::move(model);
  const ModelConfig& config = run->config();
  absl::StatusOr<std::unique_ptr<KvCachePool>> pool =
      KvCachePool::Create({.num_layers = config.num_layers,
                           .num_blocks = options.num_sequences * run->blocks_per_sequence(),
                           .num_kv_heads = config.num_kv_heads,
                           .block_size = options.block_size,
                           .head_dim = config.head_dim,
                           .dtype = options.kv_cache_dtype,
                           .keeps_sums = true},
                          {}, run->backend_->device());
  if (!pool.ok()) return pool.status();
  run->pool_ = *std::move(pool);
  absl::StatusOr<DeviceBuffer> logits = run->backend_->device().Allocate(
      static_cast<std::size_t>(kLogitRows) * config.vocab_size * SizeOf(DType::kF32));
  if (!logits.ok()) return logits.status();
  run->logits_ = *std::move(logits);
  return run;
}

absl::StatusOr<std::unique_ptr<PagedAttention>> TeacherForcing::MakeAttention(
    const AttentionCatalog& catalog) {
  return PagedAttention::Create(catalog,
                                {.num_layers = config().num_layers,
                                 .num_heads = config().num_heads,
                                 .num_kv_heads = config().num_kv_heads,
                                 .head_dim = config().head_dim,
                                 .block_size = options_.block_size},
                                {.max_tokens = options_.chunk_tokens,
                                 .max_sequences = 1,
                                 .max_sequence_length = options_.max_length},
                                *pool_, *backend_);
}

absl::Status TeacherForcing::Forward(int sequence_index, int context_length,
                                     std::span<const TokenId> tokens,
                                     const SequencePolicies& policies, PagedAttention& attention,
                                     ShadowPass shadow) {
  const auto num_tokens = static_cast<int>(tokens.size());
  const int num_blocks =
      (context_length + num_tokens + options_.block_size - 1) / options_.block_size;
  plan_.tokens.assign(tokens.begin(), tokens.end());
  plan_.block_table.clear();
  for (int i = 0; i < num_blocks; ++i) {
    plan_.block_table.push_back(BlockId{sequence_index * blocks_per_sequence() + i});
  }
  plan_.sequences.assign(1, {.id = RequestId{sequence_index},
                             .context_length = context_length,
                             .query_length = num_tokens,
                             .samples = false,
                             .first_token = 0,
                             .first_block = 0,
                             .num_blocks = num_blocks});
  plan_.num_tokens = num_tokens;
  batch_.Build(plan_, {});
  absl::Status status = attention.Plan(plan_, std::span(&policies, 1), *stream_);
  if (status.ok()) status = attention.SetShadowPass(shadow, *stream_);
  if (status.ok()) status = model_->Forward(batch_.inputs(), attention, *stream_);
  if (status.ok()) status = stream_->Synchronize();
  return status;
}

absl::StatusOr<std::span<const float>> TeacherForcing::Logits(int first_row, int num_rows) {
  rows_.resize(static_cast<std::size_t>(num_rows));
  std::iota(rows_.begin(), rows_.end(), first_row);
  const TensorView logits =
      TensorView::Of(logits_.get(), DType::kF32, num_rows, config().vocab_size);
  absl::Status status = model_->ComputeLogits(rows_, logits, *stream_);
  if (status.ok()) status = stream_->Synchronize();
  if (!status.ok()) return status;
  return std::span<const float>(logits.as<float>(),
                                static_cast<std::size_t>(num_rows) * config().vocab_size);
}

}  // namespace thresher
