// One rank's part of every step: model, KV cache, attention, and on rank 0 the sampling.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/attention/paged_attention.h"
#include "engine/model/causal_lm.h"
#include "engine/runner/kv_cache_pool.h"
#include "engine/runner/model_runner.h"
#include "engine/runner/sequence_sampler.h"
#include "engine/runner/shadow_step.h"
#include "engine/runner/step_batch.h"
#include "engine/runner/step_graphs.h"
#include "kernels/backend.h"

namespace thresher {

struct RankRunnerOptions {
  int num_blocks = 0;          // 0: as many as memory_fraction leaves room for
  double memory_fraction = 0;  // see NumBlocksThatFit
  int block_size = 0;
  DType kv_cache_dtype = DType::kBF16;
  int max_tokens = 0;                           // query rows of a step
  int max_sequences = 0;                        // sequences of a step
  int max_position = 0;                         // tokens of a sequence that are fed to the model
  bool batch_invariant = false;                 // as the backend's
  const AttentionCatalog* attention = nullptr;  // outlives the runner
};

// One thread queues steps, the rank's worker; another may finish them. Allocates nothing in a step,
// except for sequences that start, and while attention plans, captured steps and the caller's
// output still grow.
class RankRunner final {
 public:
  // Loads the rank's shard of the model. `files`, `backend` and `group` outlive the runner.
  static absl::StatusOr<std::unique_ptr<RankRunner>> Create(const ModelFiles& files,
                                                            Backend& backend,
                                                            TensorParallelGroup& group,
                                                            const RankRunnerOptions& options,
                                                            const LoadProgress& progress);

  // Gives the step to the device. At most kMaxQueued are not finished. Rank 0 fills `output` by
  // the time the step is finished; other ranks touch their own entry of output.attention alone,
  // which exists.
  absl::Status QueueStep(const StepInput& input, StepOutput& output);
  // Waits for the oldest step that was queued and not finished. Also while another thread queues
  // the next.
  absl::Status FinishStep();

  static constexpr int kMaxQueued = 2;

  const CausalLm& model() const { return *model_; }
  int num_blocks() const { return pool_->shape().num_blocks; }

 private:
  struct Sequence {
    SequenceStart start;
    SequencePolicies policies;
    TokenId last_token = 0;                  // drawn last, or the DrawnToken that stands for it
    std::optional<SequenceSampler> sampler;  // on rank 0
  };

  // A step that was given to the device.
  struct QueuedStep {
    StepOutput* output = nullptr;
    DeviceBuffer samples;  // SampledToken [max_sequences] of host memory
    std::size_t num_samples = 0;
    std::unique_ptr<DeviceEvent> done;
    SampledToken* samples_at(std::size_t index) const {
      return static_cast<SampledToken*>(samples.get()) + index;
    }
  };

  RankRunner(Backend& backend, TensorParallelGroup& group, const RankRunnerOptions& options);
  absl::Status MakeStepMemory(const RankRunnerOptions& options);
  // Enlarges the cache from one block, once all else that the runner needs has been allocated.
  absl::Status FillMemory(double memory_fraction);

  // Lets the samplers that count tokens see those of the step before, for which it waits if there
  // are any.
  absl::Status AcceptDrawnTokens();
  void UpdateSequences(const StepInput& input);
  void LookUpSequences(const StepPlan& plan);
  // The rows of sparsely decoded sequences that draw a token.
  std::span<const std::int32_t> SparseRows(const StepPlan& plan);
  // The model's layers, and logits_ of every row, for a step that can be captured.
  absl::Status RunCaptured(std::uint64_t attention_key);
  bool CanCapture(const StepPlan& plan) const;
  // Draws for the sampling sequences, a slice of rows at a time. `has_logits`: those of all rows
  // are there.
  absl::Status SampleTokens(const StepPlan& plan, bool has_logits, QueuedStep& step);
  // With several ranks: every rank gets rank 0's tokens.
  absl::Status ShareTokens(const QueuedStep& step);
  absl::Status ScorePrompts(const StepPlan& plan, std::vector<PromptScore>& scores);
  bool is_first_rank() const { return group_.rank() == 0; }
  TensorView LogitsOf(std::size_t num_rows) const;

  Backend& backend_;
  TensorParallelGroup& group_;
  const AttentionCatalog& catalog_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<CausalLm> model_;
  std::unique_ptr<KvCachePool> pool_;
  std::unique_ptr<PagedAttention> attention_;
  int max_logit_rows_ = 0;
  DeviceBuffer logits_;  // [max_logit_rows, vocab] f32
  std::optional<StepGraphs> graphs_;
  std::optional<ShadowStep> shadow_;
  absl::flat_hash_map<RequestId, Sequence> sequences_;

  std::array<QueuedStep, kMaxQueued> steps_;
  std::int64_t num_queued_ = 0;    // the queueing thread's
  std::int64_t num_finished_ = 0;  // the finishing thread's

  // Of the step that was queued last.
  StepBatch batch_;
  std::vector<Sequence*> scheduled_;  // by the plan's order
  std::vector<TokenId> last_tokens_, shared_tokens_;
  std::vector<SequenceSampler*> samplers_;  // of the sequences that sample; on rank 0
  std::vector<SequencePolicies> policies_;
  std::vector<SamplingRow> rows_;
  std::vector<std::int32_t> score_rows_, score_targets_, sparse_rows_;
  std::vector<int> score_tops_;
  std::vector<SampledToken> slice_scores_;
};

}  // namespace thresher
