#include "engine/attention/paged_attention.h"

#include <algorithm>
#include <cmath>

#include "engine/attention/policy_kind.h"

namespace thresher {
namespace {

// The policy goes by position alone; the kernel of the decode phase takes single rows. A sequence
// that is run again after a preemption has many rows past its prompt: those take the prefill kernel
// under the decode policy, unless every row must have the bits that it had alone.
bool TakesDecodeKernel(const ScheduledSequence& sequence, int prompt_length, bool batch_invariant) {
  return sequence.context_length >= prompt_length &&
         (sequence.query_length == 1 || batch_invariant);
}

}  // namespace

PagedAttention::PagedAttention(const AttentionShape& shape, bool batch_invariant, KvCachePool& pool)
    : shape_(shape),
      batch_invariant_(batch_invariant),
      scale_(1.0f / std::sqrt(static_cast<float>(shape.head_dim))),
      pool_(pool) {}

absl::StatusOr<std::unique_ptr<PagedAttention>> PagedAttention::Create(
    const AttentionCatalog& catalog, const AttentionShape& shape, const AttentionLimits& limits,
    KvCachePool& pool, Backend& backend) {
  std::unique_ptr<PagedAttention> attention(
      new PagedAttention(shape, limits.batch_invariant, pool));
  for (std::size_t i = 0; i < PolicyKinds().size(); ++i) {
    const PolicyKind& kind = *PolicyKinds()[i];
    if (kind.evaluates_only() && !catalog.settings().allows_evaluation_policies) continue;
    if (kind.needs_table() && catalog.table() == nullptr) continue;
    if (!catalog.CanCarryOut(static_cast<int>(i))) continue;
    for (const AttentionPhase phase : {AttentionPhase::kPrefill, AttentionPhase::kDecode}) {
      // A decode policy also serves many rows at once; a prefill policy never a decoded one.
      if (phase == AttentionPhase::kDecode && !kind.description().decode) continue;
      absl::StatusOr<std::unique_ptr<AttentionGroup>> group =
          AttentionGroup::Create(static_cast<int>(i), phase, catalog, shape, limits,
                                 pool.shape().dtype, backend, attention->selection_workspace_);
      if (!group.ok()) return group.status();
      attention->groups_.push_back(*std::move(group));
    }
  }
  return attention;
}

AttentionGroup* PagedAttention::FindGroup(int kind, AttentionPhase phase) {
  for (const std::unique_ptr<AttentionGroup>& group : groups_) {
    if (group->kind() == kind && group->phase() == phase) return group.get();
  }
  return nullptr;
}

absl::Status PagedAttention::Plan(const StepPlan& plan, std::span<const SequencePolicies> policies,
                                  Stream& stream) {
  for (const std::unique_ptr<AttentionGroup>& group : groups_) group->Clear();
  pass_ = ShadowPass::kNone;
  num_sequences_ = plan.sequences.size();
  int row = 0;
  for (std::size_t i = 0; i < plan.sequences.size(); ++i) {
    const ScheduledSequence& sequence = plan.sequences[i];
    const SequencePolicies& own = policies[i];
    const bool past_prompt = sequence.context_length >= own.prompt_length;
    const ResolvedPolicy& policy = past_prompt ? own.decode : own.prefill;
    AttentionGroup& group =
        *FindGroup(policy.kind, TakesDecodeKernel(sequence, own.prompt_length, batch_invariant_)
                                    ? AttentionPhase::kDecode
                                    : AttentionPhase::kPrefill);
    group.Add({.context_length = sequence.context_length,
               .query_length = sequence.query_length,
               .prompt_length = own.prompt_length,
               .parameters = policy.parameters},
              static_cast<int>(i), row, plan.BlocksOf(sequence));
    row += sequence.query_length;
  }
  for (const std::unique_ptr<AttentionGroup>& group : groups_) {
    if (group->empty()) continue;
    if (absl::Status status = group->Plan(stream); !status.ok()) return status;
  }
  return absl::OkStatus();
}

bool PagedAttention::decodes_sparsely() const {
  return std::ranges::any_of(groups_, [](const std::unique_ptr<AttentionGroup>& group) {
    return group->is_thresholded() && group->phase() == AttentionPhase::kDecode && !group->empty();
  });
}

std::uint64_t PagedAttention::launch_key() const {
  std::uint64_t key = 0;
  for (const std::unique_ptr<AttentionGroup>& group : groups_) {
    if (group->empty()) continue;
    if (key != 0 || group->phase() != AttentionPhase::kDecode) return 0;
    key = group->launch_key();
    if (key == 0) return 0;
  }
  return key;
}

absl::Status PagedAttention::SetShadowPass(ShadowPass pass, Stream& stream) {
  pass_ = pass;
  if (pass == ShadowPass::kNone) return absl::OkStatus();
  for (const std::unique_ptr<AttentionGroup>& group : groups_) {
    if (group->empty()) continue;
    if (absl::Status status = group->PlanShadow(stream); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void PagedAttention::ObserveLists(BlockListObserver* observer) {
  for (const std::unique_ptr<AttentionGroup>& group : groups_) group->ObserveLists(observer);
}

KvCacheLayer PagedAttention::CacheOf(int layer_index) {
  KvCacheLayer layer = pool_.Layer(layer_index);
  if (pass_ == ShadowPass::kDense) {
    // The step appends its rows again: sums must not count them twice.
    layer.k_sums = {};
    layer.v_sums = {};
  }
  return layer;
}

absl::Status PagedAttention::Run(int layer_index, TensorView q, TensorView out, Stream& stream) {
  AttentionLayer layer{.q = q, .cache = pool_.Layer(layer_index), .scale = scale_, .out = out};
  if (survivors_ != nullptr) {
    layer.survivors = survivors_ + layer_index * q.shape[0] * shape_.num_heads;
  }
  for (const std::unique_ptr<AttentionGroup>& group : groups_) {
    if (group->empty()) continue;
    if (absl::Status status = group->Run(layer_index, layer, pass_, stream); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

void PagedAttention::Collect(StepAttentionReport& report) const {
  report.sequences.assign(num_sequences_, {});
  report.fidelity = {};
  report.shadow = {};
  for (const std::unique_ptr<AttentionGroup>& group : groups_) {
    if (!group->empty()) group->Collect(report);
  }
}

}  // namespace thresher
