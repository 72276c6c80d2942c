// One rank's part of every step: model, KV cache, attention, and on rank 0 the sampling.
#pragma once

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

// Used by the rank's worker thread only. Allocates nothing in a step, except for sequences that
// start, and while attention plans and the caller's output still grow.
class RankRunner final {
 public:
  // Loads the rank's shard of the model. `files`, `backend` and `group` outlive the runner.
  static absl::StatusOr<std::unique_ptr<RankRunner>> Create(const ModelFiles& files,
                                                            Backend& backend,
                                                            TensorParallelGroup& group,
                                                            const RankRunnerOptions& options,
                                                            const LoadProgress& progress);

  // Runs the step. Rank 0 fills `output`; other ranks touch their own entry of output.attention
  // alone, which exists.
  absl::Status RunStep(const StepInput& input, StepOutput& output);

  const CausalLm& model() const { return *model_; }
  int num_blocks() const { return pool_->shape().num_blocks; }

 private:
  struct Sequence {
    SequenceStart start;
    SequencePolicies policies;
    TokenId last_token = 0;                  // drawn last; the same on every rank
    std::optional<SequenceSampler> sampler;  // on rank 0
  };

  RankRunner(Backend& backend, TensorParallelGroup& group, const RankRunnerOptions& options);

  // Enlarges the cache from one block, once all else that the runner needs has been allocated.
  absl::Status FillMemory(double memory_fraction);
  void UpdateSequences(const StepInput& input);
  void LookUpSequences(const StepPlan& plan);
  // The rows of sparsely decoded sequences that draw a token.
  std::span<const std::int32_t> SparseRows(const StepPlan& plan);
  // Draws for the sampling sequences, a slice of rows at a time.
  absl::Status SampleTokens(const StepPlan& plan, std::vector<SampledToken>& samples);
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
  DeviceBuffer logits_;  // [logit rows, vocab] f32
  std::optional<ShadowStep> shadow_;
  absl::flat_hash_map<RequestId, Sequence> sequences_;

  // Of the step that runs.
  StepBatch batch_;
  std::vector<Sequence*> scheduled_;  // by the plan's order
  std::vector<TokenId> last_tokens_, sampled_tokens_;
  std::vector<SequencePolicies> policies_;
  std::vector<SamplingRow> rows_;
  std::vector<std::int32_t> score_rows_, score_targets_, sparse_rows_;
  std::vector<int> score_tops_;
  std::vector<SampledToken> slice_scores_;
};

}  // namespace thresher
