#include "engine/attention/attention_group.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/attention/attention_catalog.h"

namespace thresher {
namespace {

std::string_view Name(AttentionPhase phase) {
  return phase == AttentionPhase::kPrefill ? "prefill" : "decode";
}

absl::StatusOr<const AttentionKernel*> FindKernel(const AttentionKey& key,
                                                  const std::string& policy, Backend& backend) {
  const AttentionKernel* kernel = backend.kernels().Find(key);
  if (kernel != nullptr) return kernel;
  return absl::UnimplementedError(absl::StrCat("this device has no ", std::string(Name(key.phase)),
                                               " attention kernel for policy ", policy, " with a ",
                                               std::string(thresher::Name(key.kv_dtype)),
                                               " cache and head size ", key.head_dim));
}

absl::Status Reallocate(std::size_t bytes, Backend& backend, DeviceBuffer& buffer) {
  if (bytes == 0) return absl::OkStatus();
  absl::StatusOr<DeviceBuffer> memory = backend.device().Allocate(bytes);
  if (!memory.ok()) return memory.status();
  buffer = *std::move(memory);
  return absl::OkStatus();
}

}  // namespace

AttentionGroup::AttentionGroup(int kind, AttentionPhase phase, const AttentionCatalog& catalog,
                               const AttentionShape& shape)
    : kind_(kind), phase_(phase), catalog_(catalog), shape_(shape) {}

absl::StatusOr<std::unique_ptr<AttentionGroup>> AttentionGroup::Create(
    int kind, AttentionPhase phase, const AttentionCatalog& catalog, const AttentionShape& shape,
    const AttentionLimits& limits, DType kv_dtype, Backend& backend,
    DeviceBuffer& selection_workspace) {
  std::unique_ptr<AttentionGroup> group(new AttentionGroup(kind, phase, catalog, shape));
  if (absl::Status status = group->Prepare(limits, kv_dtype, backend, selection_workspace);
      !status.ok())
    return status;
  return group;
}

absl::Status AttentionGroup::Prepare(const AttentionLimits& limits, DType kv_dtype,
                                     Backend& backend, DeviceBuffer& selection_workspace) {
  const PolicyKind& kind = *PolicyKinds()[static_cast<std::size_t>(kind_)];
  mechanism_ = kind.mechanism();
  row_bytes_ = std::int64_t{shape_.head_dim} * static_cast<std::int64_t>(SizeOf(kv_dtype));
  absl::StatusOr<const AttentionKernel*> kernel = FindKernel(
      {.mechanism = mechanism_, .phase = phase_, .kv_dtype = kv_dtype, .head_dim = shape_.head_dim},
      kind.description().name, backend);
  if (!kernel.ok()) return kernel.status();
  kernel_ = *kernel;
  SizeForLargest(limits);
  const AttentionBatch largest = Batch();
  if (absl::Status status = Reallocate(kernel_->WorkspaceBytes(largest), backend, workspace_);
      !status.ok()) {
    return status;
  }
  absl::StatusOr<std::unique_ptr<AttentionPolicy>> policy =
      kind.Create({.catalog = catalog_,
                   .shape = shape_,
                   .limits = limits,
                   .largest_batch = largest,
                   .backend = backend,
                   .selection_workspace = selection_workspace});
  if (!policy.ok()) return policy.status();
  policy_ = *std::move(policy);
  if (!is_thresholded()) return absl::OkStatus();
  const int max_rows =
      std::max(query_start_.back(), limits.batch_invariant ? limits.max_tokens : 0);
  const auto num_counts =
      static_cast<std::size_t>(max_rows) * static_cast<std::size_t>(shape_.num_kv_heads);
  if (absl::Status status = Reallocate(num_counts * sizeof(ThresholdCounts), backend, counts_);
      !status.ok()) {
    return status;
  }
  return catalog_.settings().shadow_interval > 0 ? PrepareShadow(limits, kv_dtype, backend)
                                                 : absl::OkStatus();
}

absl::Status AttentionGroup::PrepareShadow(const AttentionLimits& limits, DType kv_dtype,
                                           Backend& backend) {
  absl::StatusOr<const AttentionKernel*> kernel = FindKernel({.mechanism = AttentionMechanism::kAll,
                                                              .phase = phase_,
                                                              .kv_dtype = kv_dtype,
                                                              .head_dim = shape_.head_dim},
                                                             "dense", backend);
  if (!kernel.ok()) return kernel.status();
  dense_kernel_ = *kernel;
  if (absl::Status status =
          Reallocate(dense_kernel_->WorkspaceBytes(Batch()), backend, dense_workspace_);
      !status.ok()) {
    return status;
  }
  return Reallocate(static_cast<std::size_t>(limits.max_tokens) *
                        static_cast<std::size_t>(shape_.num_heads * shape_.head_dim) *
                        sizeof(float),
                    backend, dense_out_);
}

// Fills in the largest batch: every sequence as long as can be, the rows dealt out over them.
void AttentionGroup::SizeForLargest(const AttentionLimits& limits) {
  const int num_sequences = phase_ == AttentionPhase::kDecode
                                ? limits.max_sequences
                                : std::min(limits.max_sequences, limits.max_tokens);
  const int rows = phase_ == AttentionPhase::kDecode ? num_sequences : limits.max_tokens;
  const auto most = static_cast<std::size_t>(limits.max_sequences);
  sequences_.reserve(most);
  indices_.reserve(most);
  blocks_selected_.reserve(most);
  for (int i = 0; i <= num_sequences; ++i) {
    query_start_.push_back(
        static_cast<std::int32_t>(static_cast<std::int64_t>(rows) * i / num_sequences));
  }
  first_row_ = query_start_;
  first_row_.pop_back();
  for (int i = 0; i < num_sequences; ++i) {
    const int query_length =
        query_start_[static_cast<std::size_t>(i) + 1] - query_start_[static_cast<std::size_t>(i)];
    context_length_.push_back(limits.max_sequence_length - query_length);
    block_table_start_.push_back(0);
  }
}

AttentionBatch AttentionGroup::Batch() const {
  return {.num_heads = shape_.num_heads,
          .num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim,
          .block_size = shape_.block_size,
          .query_start = query_start_,
          .first_row = first_row_,
          .context_length = context_length_,
          .block_tables = block_tables_,
          .block_table_start = block_table_start_};
}

void AttentionGroup::Clear() {
  sequences_.clear();
  indices_.clear();
  blocks_selected_.clear();
  query_start_.assign(1, 0);
  first_row_.clear();
  context_length_.clear();
  block_tables_.clear();
  block_table_start_.clear();
  plans_dense_ = false;
  shadow_ = {};
}

void AttentionGroup::Add(const SequenceAttention& sequence, int index, int first_row,
                         std::span<const BlockId> blocks) {
  sequences_.push_back(sequence);
  indices_.push_back(index);
  blocks_selected_.push_back(0);
  first_row_.push_back(first_row);
  context_length_.push_back(sequence.context_length);
  block_table_start_.push_back(static_cast<std::int32_t>(block_tables_.size()));
  for (const BlockId block : blocks) block_tables_.push_back(static_cast<std::int32_t>(block));
  query_start_.push_back(query_start_.back() + sequence.query_length);
}

absl::Status AttentionGroup::Plan(Stream& stream) {
  absl::StatusOr<LayerSelector*> selector = policy_->Plan(sequences_, stream);
  if (!selector.ok()) return selector.status();
  selector_ = *selector;
  if (is_thresholded()) {
    std::memset(counts_.get(), 0,
                static_cast<std::size_t>(query_start_.back()) *
                    static_cast<std::size_t>(shape_.num_kv_heads) * sizeof(ThresholdCounts));
  }
  return kernel_->Plan(Batch(), workspace_, stream, plan_);
}

absl::Status AttentionGroup::PlanShadow(Stream& stream) {
  if (dense_kernel_ == nullptr || plans_dense_) return absl::OkStatus();
  plans_dense_ = true;
  return dense_kernel_->Plan(Batch(), dense_workspace_, stream, dense_plan_);
}

absl::Status AttentionGroup::Run(int layer_index, const AttentionLayer& layer, ShadowPass pass,
                                 Stream& stream) {
  if (is_thresholded() && pass == ShadowPass::kDense) {
    return dense_kernel_->Run(dense_plan_, layer, SelectAll{}, stream);
  }
  const absl::StatusOr<KvSelection> selection =
      selector_->Select(layer_index, plan_, layer, stream);
  if (!selection.ok()) return selection.status();
  AttentionLayer counted = layer;
  if (is_thresholded()) counted.counts = static_cast<ThresholdCounts*>(counts_.get());
  if (absl::Status status = kernel_->Run(plan_, counted, *selection, stream); !status.ok()) {
    return status;
  }
  if (const auto* lists = std::get_if<SelectBlocks>(&*selection);
      lists != nullptr && pass != ShadowPass::kDense) {
    CountBlocks(*lists);
    if (list_observer_ != nullptr && selector_->block_selection() != nullptr) {
      return list_observer_->Observe(layer_index, plan_, layer, *selector_->block_selection());
    }
  }
  sums_per_block_ = 0;
  std::span<const std::int32_t> targets;
  int longest_row = std::numeric_limits<int>::max();
  if (const auto* thresholds = std::get_if<SelectAboveThreshold>(&*selection)) {
    targets = thresholds->targets;
    longest_row = thresholds->longest_row;
    sums_per_block_ = (thresholds->placement == ThresholdPlacement::kCentred ? 1 : 0) +
                      (thresholds->value_mean != ValueMean::kOff ? 1 : 0);
  } else if (const auto* ranked = std::get_if<SelectRanked>(&*selection)) {
    targets = ranked->targets;
  }
  return is_thresholded() && pass == ShadowPass::kCompare
             ? Compare(layer, targets, longest_row, stream)
             : absl::OkStatus();
}

}  // namespace thresher
