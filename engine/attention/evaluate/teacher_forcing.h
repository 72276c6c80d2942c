// Runs given text through a model under given policies and shows the logits of its positions.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/attention/paged_attention.h"
#include "engine/model/causal_lm.h"
#include "engine/runner/kv_cache_pool.h"
#include "engine/runner/step_batch.h"
#include "kernels/backend.h"
#include "scheduler/step_plan.h"

namespace thresher {

struct TeacherForcingOptions {
  BackendOptions backend;
  DType kv_cache_dtype = DType::kBF16;
  int block_size = 64;
  int num_sequences = 1;   // texts held at once, each with a cache of its own
  int max_length = 0;      // tokens of each
  int chunk_tokens = 128;  // rows of one step at most
};

// On one rank. One thread at a time. `files` outlive the object.
class TeacherForcing final {
 public:
  // Errors as LoadCausalLm and KvCachePool::Create.
  static absl::StatusOr<std::unique_ptr<TeacherForcing>> Create(
      const ModelFiles& files, const TeacherForcingOptions& options);

  // Attention over the sequences' caches. `catalog` and this object outlive it.
  absl::StatusOr<std::unique_ptr<PagedAttention>> MakeAttention(const AttentionCatalog& catalog);

  // Runs the next tokens, at most chunk_tokens, of sequence `sequence_index`, at positions from
  // `context_length` on; they do not cross the prompt's end. Waits for the step.
  absl::Status Forward(int sequence_index, int context_length, std::span<const TokenId> tokens,
                       const SequencePolicies& policies, PagedAttention& attention,
                       ShadowPass shadow);
  // Logits [num_rows, vocab_size] of rows of the last Forward, at most kLogitRows; good until the
  // next call.
  absl::StatusOr<std::span<const float>> Logits(int first_row, int num_rows);
  static constexpr int kLogitRows = 64;

  const ModelConfig& config() const { return model_->config(); }

 private:
  explicit TeacherForcing(const TeacherForcingOptions& options)
      : options_(options), batch_(options.block_size, options.chunk_tokens, 1) {}
  int blocks_per_sequence() const {
    return (options_.max_length + options_.block_size - 1) / options_.block_size;
  }

  const TeacherForcingOptions options_;
  std::vector<std::unique_ptr<TensorParallelGroup>> group_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<CausalLm> model_;
  std::unique_ptr<KvCachePool> pool_;
  DeviceBuffer logits_;  // [kLogitRows, vocab_size] f32
  StepPlan plan_;
  StepBatch batch_;
  std::vector<std::int32_t> rows_;
};

}  // namespace thresher
