// Plans of attention on the CPU: which units a batch makes, and where they keep partial results.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/ops/attention_kernel.h"

namespace thresher {

// InvalidArgument naming the field that is inconsistent.
absl::Status CheckAttentionBatch(const AttentionBatch& batch);

// Leaves the plan without items; num_blocks and num_rows are those of plan.batch, which has been
// checked.
void ResetPlan(AttentionPlan& plan);

// Fill plan.items, merge_start, num_blocks and num_rows from plan.batch, which has been checked.
// Prefill: the longest units first. Decode: by sequence, so that a unit's neighbours share its
// cache lines.
void PlanPrefillUnits(AttentionPlan& plan);
void PlanDecodeUnits(AttentionPlan& plan);

// The most ranges that decode cuts a row's keys into: enough for 64 cores at two KV heads.
inline constexpr int kMaxSplits = 32;

// The workspace: counters of finished units, one for each merge; partial results; scratch of each
// thread. Offsets in bytes.
struct AttentionWorkspace {
  std::size_t partials = 0;
  std::size_t scratch = 0;
  std::size_t scratch_each = 0;
  std::size_t total = 0;
};
AttentionWorkspace LayOutWorkspace(AttentionPhase phase, const AttentionBatch& batch,
                                   std::int64_t num_merges, std::int64_t num_partials,
                                   int num_threads);

// The most merges and partials that a batch no larger than `largest` makes.
struct PartialCounts {
  std::int64_t merges = 0;
  std::int64_t partials = 0;
};
PartialCounts MostPartials(const AttentionBatch& largest);

}  // namespace thresher
