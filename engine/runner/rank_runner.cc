#include "engine/runner/rank_runner.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/attention/policy_kind.h"
#include "engine/runner/cache_size.h"

namespace thresher {
namespace {

// Logits are made for so many rows at a time: enough for the head's GEMM to run at full speed, few
// enough that a vocabulary of 150,000 costs 40 MB.
constexpr int kLogitRows = 64;
// Where steps are captured, logits of all their rows are: larger decode steps are not captured.
constexpr int kMaxCapturedRows = 256;

}  // namespace

RankRunner::RankRunner(Backend& backend, TensorParallelGroup& group,
                       const RankRunnerOptions& options)
    : backend_(backend),
      group_(group),
      catalog_(*options.attention),
      batch_(options.block_size, options.max_tokens, options.max_sequences) {
  const auto num_sequences = static_cast<std::size_t>(options.max_sequences);
  sequences_.reserve(num_sequences);
  scheduled_.reserve(num_sequences);
  last_tokens_.reserve(num_sequences);
  shared_tokens_.reserve(num_sequences);
  samplers_.reserve(num_sequences);
  policies_.reserve(num_sequences);
  rows_.reserve(num_sequences);
  max_logit_rows_ = backend.device().captures_work()
                        ? std::max(kLogitRows, std::min(options.max_sequences, kMaxCapturedRows))
                        : kLogitRows;
  score_rows_.reserve(kLogitRows);
  score_targets_.reserve(kLogitRows);
  score_tops_.reserve(kLogitRows);
  slice_scores_.reserve(kLogitRows);
}

absl::StatusOr<std::unique_ptr<RankRunner>> RankRunner::Create(const ModelFiles& files,
                                                               Backend& backend,
                                                               TensorParallelGroup& group,
                                                               const RankRunnerOptions& options,
                                                               const LoadProgress& progress) {
  std::unique_ptr<RankRunner> runner(new RankRunner(backend, group, options));
  absl::StatusOr<std::unique_ptr<Stream>> stream = backend.device().CreateStream();
  if (!stream.ok()) return stream.status();
  runner->stream_ = *std::move(stream);

  absl::StatusOr<std::unique_ptr<CausalLm>> model =
      LoadCausalLm(files, backend, group,
                   {.max_tokens = options.max_tokens,
                    .max_logit_rows = runner->max_logit_rows_,
                    .max_position = options.max_position},
                   progress);
  if (!model.ok()) return model.status();
  runner->model_ = *std::move(model);
  const ModelConfig& config = runner->model_->config();

  absl::StatusOr<std::unique_ptr<KvCachePool>> pool =
      KvCachePool::Create({.num_layers = config.num_layers,
                           .num_blocks = std::max(1, options.num_blocks),
                           .num_kv_heads = runner->model_->num_local_kv_heads(),
                           .block_size = options.block_size,
                           .head_dim = config.head_dim,
                           .dtype = options.kv_cache_dtype,
                           .keeps_sums = options.attention->needs_sums()},
                          {}, backend.device());
  if (!pool.ok()) return pool.status();
  runner->pool_ = *std::move(pool);

  absl::StatusOr<std::unique_ptr<PagedAttention>> attention =
      PagedAttention::Create(*options.attention,
                             {.num_layers = config.num_layers,
                              .num_heads = runner->model_->num_local_heads(),
                              .num_kv_heads = runner->model_->num_local_kv_heads(),
                              .head_dim = config.head_dim,
                              .block_size = options.block_size,
                              .first_head = group.rank() * runner->model_->num_local_heads(),
                              .first_kv_head = group.rank() * runner->model_->num_local_kv_heads()},
                             {.max_tokens = options.max_tokens,
                              .max_sequences = options.max_sequences,
                              .max_sequence_length = options.max_position,
                              .batch_invariant = options.batch_invariant},
                             *runner->pool_, backend);
  if (!attention.ok()) return attention.status();
  runner->attention_ = *std::move(attention);

  if (absl::Status status = runner->MakeStepMemory(options); !status.ok()) return status;
  runner->shadow_.emplace(options.attention->settings().shadow_interval, runner->is_first_rank(),
                          runner->LogitsOf(kLogitRows));
  if (options.num_blocks == 0) {
    absl::Status status = runner->FillMemory(options.memory_fraction);
    if (!status.ok()) return status;
  }
  return runner;
}

absl::Status RankRunner::FillMemory(double memory_fraction) {
  if (absl::Status status = stream_->Synchronize(); !status.ok()) return status;
  const absl::StatusOr<DeviceMemory> memory = backend_.device().Memory();
  if (!memory.ok()) return memory.status();
  const absl::StatusOr<int> blocks = NumBlocksThatFit(pool_->shape(), memory_fraction, *memory);
  return blocks.ok() ? pool_->SetNumBlocks(*blocks) : blocks.status();
}

absl::Status RankRunner::MakeStepMemory(const RankRunnerOptions& options) {
  Device& device = backend_.device();
  absl::StatusOr<DeviceBuffer> logits =
      device.Allocate(static_cast<std::size_t>(max_logit_rows_) * model_->config().vocab_size *
                      SizeOf(DType::kF32));
  if (!logits.ok()) return logits.status();
  logits_ = *std::move(logits);
  const auto num_sequences = static_cast<std::size_t>(options.max_sequences);
  for (QueuedStep& step : steps_) {
    absl::StatusOr<DeviceBuffer> samples =
        device.AllocateHost(num_sequences * sizeof(SampledToken));
    if (!samples.ok()) return samples.status();
    step.samples = *std::move(samples);
    absl::StatusOr<std::unique_ptr<DeviceEvent>> done = device.CreateEvent();
    if (!done.ok()) return done.status();
    step.done = *std::move(done);
  }
  if (device.captures_work()) graphs_.emplace(device);
  return backend_.ops().ReserveDraws(options.max_sequences);
}

absl::Status RankRunner::QueueStep(const StepInput& input, StepOutput& output) {
  const StepPlan& plan = input.plan;
  if (absl::Status status = AcceptDrawnTokens(); !status.ok()) return status;
  QueuedStep& step = steps_[static_cast<std::size_t>(num_queued_ % kMaxQueued)];
  step.output = &output;
  UpdateSequences(input);
  LookUpSequences(plan);
  batch_.Build(plan, last_tokens_);
  absl::Status status = attention_->Plan(plan, policies_, *stream_);
  const bool captured = status.ok() && CanCapture(plan);
  const bool shadows = status.ok() && shadow_->Takes(*attention_);
  const std::span<const std::int32_t> sparse_rows =
      shadows ? SparseRows(plan) : std::span<const std::int32_t>();
  if (shadows) {
    status =
        shadow_->RunDense(batch_.inputs(), sparse_rows, *model_, *attention_, backend_, *stream_);
  }
  if (status.ok()) {
    status = captured ? RunCaptured(attention_->launch_key())
                      : model_->Forward(batch_.inputs(), *attention_, *stream_);
  }
  ShadowReport shadow;
  if (status.ok() && shadows) {
    status = shadow_->CompareTokens(sparse_rows, *model_, backend_, *stream_, shadow);
  }
  if (status.ok()) status = ScorePrompts(plan, output.prompt_scores);
  if (status.ok()) status = SampleTokens(plan, captured, step);
  if (status.ok()) status = step.done->Record(*stream_);
  if (!status.ok()) return status;
  ++num_queued_;
  StepAttentionReport& report = output.attention[static_cast<std::size_t>(group_.rank())];
  attention_->Collect(report);
  report.shadow.Add(shadow);
  return status;
}

absl::Status RankRunner::FinishStep() {
  QueuedStep& step = steps_[static_cast<std::size_t>(num_finished_++ % kMaxQueued)];
  if (absl::Status status = step.done->Wait(); !status.ok()) return status;
  if (is_first_rank()) {
    step.output->samples.assign(step.samples_at(0), step.samples_at(step.num_samples));
  }
  return absl::OkStatus();
}

absl::Status RankRunner::AcceptDrawnTokens() {
  if (!is_first_rank() || num_queued_ == 0) return absl::OkStatus();
  const QueuedStep& before = steps_[static_cast<std::size_t>((num_queued_ - 1) % kMaxQueued)];
  const bool counts = std::ranges::any_of(
      samplers_, [](const SequenceSampler* sampler) { return sampler->counts_tokens(); });
  if (!counts) return absl::OkStatus();
  if (absl::Status status = before.done->Wait(); !status.ok()) return status;
  for (std::size_t i = 0; i < samplers_.size(); ++i) {
    const SampledToken& sample = *before.samples_at(i);
    samplers_[i]->Accept(sample.valid ? sample.token : 0);
  }
  return absl::OkStatus();
}

bool RankRunner::CanCapture(const StepPlan& plan) const {
  return graphs_.has_value() && group_.size() == 1 && attention_->launch_key() != 0 &&
         plan.num_samples == static_cast<int>(plan.sequences.size()) &&
         batch_.inputs().num_tokens() == plan.num_samples && plan.num_samples <= max_logit_rows_ &&
         std::ranges::none_of(
             scheduled_, [](const Sequence* sequence) { return sequence->start.scores_prompt; });
}

absl::Status RankRunner::RunCaptured(std::uint64_t attention_key) {
  const int num_rows = PaddedRows(batch_.inputs().num_tokens(), max_logit_rows_);
  batch_.PadTo(num_rows);
  const BatchInputs inputs = batch_.inputs();
  const std::span<const std::int32_t> rows = batch_.padded_sample_rows();
  absl::Status status = backend_.ops().Stage({.ids = inputs.token_ids,
                                              .positions = inputs.positions,
                                              .slot_mapping = inputs.slot_mapping,
                                              .rows = rows},
                                             *stream_);
  if (!status.ok()) return status;
  return graphs_->Run({.num_rows = num_rows, .attention_key = attention_key}, *stream_, [&] {
    absl::Status queued = model_->Forward(inputs, *attention_, *stream_);
    if (!queued.ok()) return queued;
    return model_->ComputeLogits(rows, LogitsOf(rows.size()), *stream_);
  });
}

void RankRunner::UpdateSequences(const StepInput& input) {
  for (const SequenceStart& start : input.started) {
    Sequence& sequence = sequences_[start.id];
    sequence.start = start;
    const AttentionChoice& choice = start.request->attention;
    sequence.policies = {.prompt_length = static_cast<int>(start.request->prompt.size()),
                         .prefill = catalog_.Resolve(choice.prefill),
                         .decode = catalog_.Resolve(choice.decode)};
    if (is_first_rank()) sequence.sampler.emplace(start);
  }
  for (const RequestId id : input.ended) sequences_.erase(id);
}

void RankRunner::LookUpSequences(const StepPlan& plan) {
  scheduled_.clear();
  last_tokens_.clear();
  policies_.clear();
  for (const ScheduledSequence& scheduled : plan.sequences) {
    const auto found = sequences_.find(scheduled.id);
    assert(found != sequences_.end());
    scheduled_.push_back(&found->second);
    last_tokens_.push_back(found->second.last_token);
    policies_.push_back(found->second.policies);
  }
}

std::span<const std::int32_t> RankRunner::SparseRows(const StepPlan& plan) {
  sparse_rows_.clear();
  const std::span<const std::int32_t> row_start = batch_.row_start();
  for (std::size_t i = 0; i < plan.sequences.size(); ++i) {
    const ScheduledSequence& sequence = plan.sequences[i];
    const PolicyKind& kind = *PolicyKinds()[static_cast<std::size_t>(policies_[i].decode.kind)];
    if (sequence.samples && sequence.context_length >= policies_[i].prompt_length &&
        kind.mechanism() == AttentionMechanism::kAboveThreshold) {
      sparse_rows_.push_back(row_start[i + 1] - 1);
    }
  }
  return sparse_rows_;
}

TensorView RankRunner::LogitsOf(std::size_t num_rows) const {
  return TensorView::Of(logits_.get(), DType::kF32, static_cast<std::int64_t>(num_rows),
                        model_->config().vocab_size);
}

absl::Status RankRunner::SampleTokens(const StepPlan& plan, bool has_logits, QueuedStep& step) {
  const std::span<const std::int32_t> all_rows = batch_.sample_rows();
  step.num_samples = all_rows.size();
  samplers_.clear();
  if (is_first_rank()) {
    rows_.clear();
    for (std::size_t i = 0; i < scheduled_.size(); ++i) {
      const ScheduledSequence& scheduled = plan.sequences[i];
      if (!scheduled.samples) continue;
      samplers_.push_back(&*scheduled_[i]->sampler);
      rows_.push_back(samplers_.back()->RowFor(scheduled.context_length + scheduled.query_length));
      rows_.back().draw = static_cast<std::int32_t>(rows_.size()) - 1;
    }
  }
  const auto slice = static_cast<std::size_t>(has_logits ? max_logit_rows_ : kLogitRows);
  for (std::size_t first = 0; first < all_rows.size(); first += slice) {
    const std::size_t count = std::min(slice, all_rows.size() - first);
    const TensorView logits = LogitsOf(count);
    absl::Status status;
    if (!has_logits) {
      status = model_->ComputeLogits(all_rows.subspan(first, count), logits, *stream_);
    }
    if (status.ok() && is_first_rank()) {
      status = backend_.ops().Sample(logits, std::span(rows_).subspan(first, count),
                                     std::span(step.samples_at(first), count), *stream_);
    }
    if (!status.ok()) return status;
  }
  if (group_.size() > 1 && !all_rows.empty()) {
    if (absl::Status status = ShareTokens(step); !status.ok()) return status;
  }
  std::size_t next = 0;
  for (std::size_t i = 0; i < scheduled_.size(); ++i) {
    if (!plan.sequences[i].samples) continue;
    scheduled_[i]->last_token =
        group_.size() > 1 ? shared_tokens_[next] : DrawnToken(static_cast<std::int32_t>(next));
    ++next;
  }
  return absl::OkStatus();
}

absl::Status RankRunner::ShareTokens(const QueuedStep& step) {
  shared_tokens_.resize(step.num_samples);
  if (is_first_rank()) {
    if (absl::Status status = stream_->Synchronize(); !status.ok()) return status;
    // A row without a finite logit has no token; its request ends, but a step that is planned
    // already may still run it.
    std::transform(step.samples_at(0), step.samples_at(step.num_samples), shared_tokens_.begin(),
                   [](const SampledToken& sample) { return sample.valid ? sample.token : 0; });
  }
  return group_.Broadcast(std::as_writable_bytes(std::span(shared_tokens_)), *stream_);
}

absl::Status RankRunner::ScorePrompts(const StepPlan& plan, std::vector<PromptScore>& scores) {
  if (is_first_rank()) scores.clear();
  const std::span<const std::int32_t> row_start = batch_.row_start();
  for (std::size_t i = 0; i < scheduled_.size(); ++i) {
    const Sequence& sequence = *scheduled_[i];
    if (!sequence.start.scores_prompt) continue;
    const ScheduledSequence& scheduled = plan.sequences[i];
    const std::vector<TokenId>& prompt = sequence.start.request->prompt;
    // The row at position p scores the token at p + 1.
    const int first_target = scheduled.context_length + 1;
    const int end_target =
        std::min(first_target + scheduled.query_length, static_cast<int>(prompt.size()));
    for (int target = first_target; target < end_target;) {
      const int count = std::min(kLogitRows, end_target - target);
      score_rows_.clear();
      for (int j = 0; j < count; ++j) {
        score_rows_.push_back(row_start[i] + target - first_target + j);
      }
      const TensorView logits = LogitsOf(score_rows_.size());
      absl::Status status = model_->ComputeLogits(score_rows_, logits, *stream_);
      if (status.ok() && is_first_rank()) {
        score_targets_.assign(prompt.begin() + target, prompt.begin() + target + count);
        score_tops_.assign(score_rows_.size(), *sequence.start.request->sampling.prompt_logprobs);
        slice_scores_.resize(score_rows_.size());
        status = backend_.ops().ScoreTokens(logits, score_targets_, score_tops_, slice_scores_,
                                            *stream_);
        if (status.ok()) status = stream_->Synchronize();
      }
      if (!status.ok()) return status;
      if (is_first_rank()) {
        for (int j = 0; j < count; ++j) {
          scores.push_back({static_cast<int>(i), target + j, slice_scores_[j]});
        }
      }
      target += count;
    }
  }
  return absl::OkStatus();
}

}  // namespace thresher
