// StepAttention over the paged cache of one rank: splits a step's sequences into groups of one
// policy and phase, plans each group once, and runs them layer by layer.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/attention/attention_catalog.h"
#include "engine/attention/attention_counts.h"
#include "engine/attention/attention_group.h"
#include "engine/attention/step_attention.h"
#include "engine/runner/kv_cache_pool.h"
#include "kernels/backend.h"
#include "scheduler/step_plan.h"

namespace thresher {

// What a sequence of the plan brings, beside its share of the step.
struct SequencePolicies {
  int prompt_length = 0;
  ResolvedPolicy prefill;
  ResolvedPolicy decode;
};

// One thread at a time. Allocates nothing after creation, except while plans still grow.
class PagedAttention final : public StepAttention {
 public:
  // Makes a group for each policy and phase that the catalog can serve. Unimplemented if the
  // backend has no kernel for one at this cache dtype and head size. `catalog`, `backend` and
  // `pool` outlive the object; the pool keeps sums if the catalog needs them.
  static absl::StatusOr<std::unique_ptr<PagedAttention>> Create(const AttentionCatalog& catalog,
                                                                const AttentionShape& shape,
                                                                const AttentionLimits& limits,
                                                                KvCachePool& pool,
                                                                Backend& backend);

  // Groups and plans the step. `policies` has one entry for each sequence of the plan, which stays
  // unchanged until the last layer has run.
  absl::Status Plan(const StepPlan& plan, std::span<const SequencePolicies> policies,
                    Stream& stream);
  // Whether a sequence of the planned step decodes above thresholds, so that comparing it with
  // dense attention says something.
  bool decodes_sparsely() const;
  // AttentionPlan::launch_key of the planned step's attention if all its sequences decode densely,
  // so that captured layers of one step serve another of equal key; else 0.
  std::uint64_t launch_key() const;
  // How the layers that follow run; Plan sets kNone. Others need shadow_interval in the settings.
  absl::Status SetShadowPass(ShadowPass pass, Stream& stream);
  // For evaluation, with steps of one sequence: writes each thresholded row's survivors to
  // survivors [num_layers, rows of the step, num_heads]. Until called with null.
  void ObserveSurvivors(std::int32_t* survivors) { survivors_ = survivors; }

  // Likewise for lists of blocks, which the observer sees layer by layer. Until called with null.
  void ObserveLists(BlockListObserver* observer);

  KvCacheLayer CacheOf(int layer_index) override;
  absl::Status Run(int layer_index, TensorView q, TensorView out, Stream& stream) override;

  // What the step read, after its stream has been waited for. Overwrites the report.
  void Collect(StepAttentionReport& report) const;

 private:
  PagedAttention(const AttentionShape& shape, bool batch_invariant, KvCachePool& pool);
  AttentionGroup* FindGroup(int kind, AttentionPhase phase);

  const AttentionShape shape_;
  const bool batch_invariant_;
  const float scale_;
  KvCachePool& pool_;
  DeviceBuffer selection_workspace_;  // before the groups, whose policies refer to it
  std::vector<std::unique_ptr<AttentionGroup>> groups_;
  std::size_t num_sequences_ = 0;  // of the step
  ShadowPass pass_ = ShadowPass::kNone;
  std::int32_t* survivors_ = nullptr;
};

}  // namespace thresher
