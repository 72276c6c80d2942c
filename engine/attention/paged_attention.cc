#include "engine/attention/paged_attention.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

// The policy goes by position alone; the kernel of the decode phase takes single rows. A sequence
// that is run again after a preemption has many rows past its prompt: those take the prefill kernel
// under the decode policy, unless every row must have the bits that it had alone.
bool TakesDecodeKernel(const ScheduledSequence& sequence, int prompt_length, bool batch_invariant) {
  return sequence.context_length >= prompt_length &&
         (sequence.query_length == 1 || batch_invariant);
}

std::string_view Name(AttentionPhase phase) {
  return phase == AttentionPhase::kPrefill ? "prefill" : "decode";
}

}  // namespace

PagedAttention::PagedAttention(const AttentionShape& shape, bool batch_invariant, KvCachePool& pool)
    : shape_(shape),
      batch_invariant_(batch_invariant),
      scale_(1.0f / std::sqrt(static_cast<float>(shape.head_dim))),
      pool_(pool) {}

absl::StatusOr<std::unique_ptr<PagedAttention>> PagedAttention::Create(
    const AttentionShape& shape, const PagedAttentionLimits& limits, KvCachePool& pool,
    Backend& backend) {
  std::unique_ptr<PagedAttention> attention(
      new PagedAttention(shape, limits.batch_invariant, pool));
  const int num_policies = static_cast<int>(AttentionPolicies().size());
  for (int policy = 0; policy < num_policies; ++policy) {
    for (const AttentionPhase phase : {AttentionPhase::kPrefill, AttentionPhase::kDecode}) {
      if (absl::Status status = attention->AddGroup(policy, phase, limits, backend); !status.ok()) {
        return status;
      }
    }
  }
  return attention;
}

absl::Status PagedAttention::AddGroup(int policy_index, AttentionPhase phase,
                                      const PagedAttentionLimits& limits, Backend& backend) {
  Group group;
  group.policy_index = policy_index;
  group.phase = phase;
  group.policy = CreateAttentionPolicy(policy_index);
  const AttentionKey key{.mechanism = group.policy->mechanism(),
                         .phase = phase,
                         .kv_dtype = pool_.shape().dtype,
                         .head_dim = shape_.head_dim};
  group.kernel = backend.kernels().Find(key);
  if (group.kernel == nullptr) {
    return absl::UnimplementedError(absl::StrCat(
        "this device has no ", std::string(Name(phase)), " attention kernel for policy ",
        std::string(group.policy->name()), " with a ", std::string(thresher::Name(key.kv_dtype)),
        " cache and head size ", key.head_dim));
  }
  // The largest batch: every sequence as long as can be, the rows dealt out over them.
  const int num_sequences = phase == AttentionPhase::kDecode
                                ? limits.max_sequences
                                : std::min(limits.max_sequences, limits.max_tokens);
  const int rows = phase == AttentionPhase::kDecode ? num_sequences : limits.max_tokens;
  group.sequences.reserve(static_cast<std::size_t>(limits.max_sequences));
  for (int i = 0; i <= num_sequences; ++i) {
    group.query_start.push_back(
        static_cast<std::int32_t>(static_cast<std::int64_t>(rows) * i / num_sequences));
  }
  group.first_row = group.query_start;
  group.first_row.pop_back();
  for (int i = 0; i < num_sequences; ++i) {
    const int query_length = group.query_start[i + 1] - group.query_start[i];
    group.context_length.push_back(limits.max_sequence_length - query_length);
    group.block_table_start.push_back(0);
  }
  const std::size_t bytes = group.kernel->WorkspaceBytes(BatchOf(group));
  if (bytes > 0) {
    absl::StatusOr<DeviceBuffer> workspace = backend.device().Allocate(bytes);
    if (!workspace.ok()) return workspace.status();
    group.workspace = *std::move(workspace);
  }
  groups_.push_back(std::move(group));
  return absl::OkStatus();
}

PagedAttention::Group* PagedAttention::FindGroup(int policy_index, AttentionPhase phase) {
  for (Group& group : groups_) {
    if (group.policy_index == policy_index && group.phase == phase) return &group;
  }
  return nullptr;
}

AttentionBatch PagedAttention::BatchOf(const Group& group) const {
  return {.num_heads = shape_.num_heads,
          .num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim,
          .block_size = shape_.block_size,
          .query_start = group.query_start,
          .first_row = group.first_row,
          .context_length = group.context_length,
          .block_tables = group.block_tables,
          .block_table_start = group.block_table_start};
}

absl::Status PagedAttention::Plan(const StepPlan& plan, std::span<const SequencePolicies> policies,
                                  Stream& stream) {
  for (Group& group : groups_) {
    group.sequences.clear();
    group.query_start.assign(1, 0);
    group.first_row.clear();
    group.context_length.clear();
    group.block_tables.clear();
    group.block_table_start.clear();
  }
  int row = 0;
  for (std::size_t i = 0; i < plan.sequences.size(); ++i) {
    const ScheduledSequence& sequence = plan.sequences[i];
    const SequencePolicies& policy = policies[i];
    const bool past_prompt = sequence.context_length >= policy.prompt_length;
    Group& group = *FindGroup(past_prompt ? policy.decode_policy : policy.prefill_policy,
                              TakesDecodeKernel(sequence, policy.prompt_length, batch_invariant_)
                                  ? AttentionPhase::kDecode
                                  : AttentionPhase::kPrefill);
    group.sequences.push_back(
        {sequence.context_length, sequence.query_length, policy.prompt_length});
    group.first_row.push_back(row);
    group.context_length.push_back(sequence.context_length);
    group.block_table_start.push_back(static_cast<std::int32_t>(group.block_tables.size()));
    for (const BlockId block : plan.BlocksOf(sequence)) {
      group.block_tables.push_back(static_cast<std::int32_t>(block));
    }
    group.query_start.push_back(group.query_start.back() + sequence.query_length);
    row += sequence.query_length;
  }
  for (Group& group : groups_) {
    if (group.sequences.empty()) continue;
    absl::StatusOr<LayerSelector*> selector = group.policy->Plan(group.sequences, stream);
    if (!selector.ok()) return selector.status();
    group.selector = *selector;
    if (absl::Status status =
            group.kernel->Plan(BatchOf(group), group.workspace, stream, group.plan);
        !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status PagedAttention::Run(int layer_index, TensorView q, TensorView out, Stream& stream) {
  const AttentionLayer layer{
      .q = q, .cache = pool_.Layer(layer_index), .scale = scale_, .out = out};
  for (const Group& group : groups_) {
    if (group.sequences.empty()) continue;
    const absl::StatusOr<KvSelection> selection =
        group.selector->Select(layer_index, group.plan, layer, stream);
    if (!selection.ok()) return selection.status();
    if (absl::Status status = group.kernel->Run(group.plan, layer, *selection, stream);
        !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace thresher
