// StepAttention over the paged cache of one rank: splits a step's sequences into groups of one
// policy and phase, plans each group once, and runs them layer by layer.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/attention/attention_policy.h"
#include "engine/attention/step_attention.h"
#include "engine/runner/kv_cache_pool.h"
#include "kernels/backend.h"
#include "scheduler/step_plan.h"

namespace thresher {

struct PagedAttentionLimits {
  int max_tokens = 0;           // query rows of a step
  int max_sequences = 0;        // sequences of a step
  int max_sequence_length = 0;  // cached and new tokens of one
  // Rows past a prompt take the decode kernel however many they are, so that tokens run again after
  // a preemption get the bits that they got one by one. Slower than the prefill kernel for many.
  bool batch_invariant = false;
};

// What a sequence of the plan brings, beside its share of the step.
struct SequencePolicies {
  int prompt_length = 0;
  int prefill_policy = 0;  // index into AttentionPolicies()
  int decode_policy = 0;
};

// One thread at a time. Allocates nothing after creation, except while plans still grow.
class PagedAttention final : public StepAttention {
 public:
  // Unimplemented if the backend has no kernel for a policy at this cache dtype and head size.
  // `backend` and `pool` outlive the object.
  static absl::StatusOr<std::unique_ptr<PagedAttention>> Create(const AttentionShape& shape,
                                                                const PagedAttentionLimits& limits,
                                                                KvCachePool& pool,
                                                                Backend& backend);

  // Groups and plans the step. `policies` has one entry for each sequence of the plan, which stays
  // unchanged until the last layer has run.
  absl::Status Plan(const StepPlan& plan, std::span<const SequencePolicies> policies,
                    Stream& stream);

  KvCacheLayer CacheOf(int layer_index) override { return pool_.Layer(layer_index); }
  absl::Status Run(int layer_index, TensorView q, TensorView out, Stream& stream) override;

 private:
  // The sequences of one policy and phase; their rows may lie anywhere in the step.
  struct Group {
    int policy_index = 0;
    AttentionPhase phase{};
    std::unique_ptr<AttentionPolicy> policy;
    const AttentionKernel* kernel = nullptr;
    DeviceBuffer workspace;
    // This step's share.
    std::vector<SequenceAttention> sequences;
    std::vector<std::int32_t> query_start, first_row, context_length;
    std::vector<std::int32_t> block_tables, block_table_start;
    AttentionPlan plan;
    LayerSelector* selector = nullptr;
  };

  PagedAttention(const AttentionShape& shape, bool batch_invariant, KvCachePool& pool);
  absl::Status AddGroup(int policy_index, AttentionPhase phase, const PagedAttentionLimits& limits,
                        Backend& backend);
  Group* FindGroup(int policy_index, AttentionPhase phase);
  AttentionBatch BatchOf(const Group& group) const;

  const AttentionShape shape_;
  const bool batch_invariant_;
  const float scale_;
  KvCachePool& pool_;
  std::vector<Group> groups_;
};

}  // namespace thresher
