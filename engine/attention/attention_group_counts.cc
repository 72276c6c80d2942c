// What a group's kernels and lists read, counted after the fact.
#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/attention/attention_catalog.h"
#include "engine/attention/attention_group.h"

namespace thresher {
namespace {

// Query blocks of a sequence whose last row is in this step: over all steps of a prompt each counts
// once.
struct CountedBlocks {
  int first = 0, end = 0;
};

CountedBlocks CountedIn(const SequenceAttention& sequence) {
  const int end_row = sequence.context_length + sequence.query_length;
  const bool ends_prompt = end_row >= sequence.prompt_length;
  return {
      sequence.context_length / kSelectionBlock,
      ends_prompt ? (end_row + kSelectionBlock - 1) / kSelectionBlock : end_row / kSelectionBlock};
}

template <typename Buckets, typename Counts>
void AddBuckets(const Counts& counts, Buckets& buckets) {
  for (std::size_t i = 0; i < buckets.size(); ++i) buckets[i] += counts[i];
}

float ElementOf(const TensorView& tensor, std::int64_t index) {
  if (tensor.dtype == DType::kF32) return tensor.as<float>()[index];
  const std::uint32_t bits = tensor.as<std::uint16_t>()[index];
  return std::bit_cast<float>(bits << 16);
}

}  // namespace

void AttentionGroup::CountBlocks(const SelectBlocks& lists) {
  for (std::size_t s = 0; s < sequences_.size(); ++s) {
    const CountedBlocks counted = CountedIn(sequences_[s]);
    const int first_block = sequences_[s].context_length / kSelectionBlock;
    for (int i = counted.first; i < counted.end; ++i) {
      const std::int32_t* lengths =
          lists.list_length +
          static_cast<std::int64_t>(lists.query_block_start[s] + i - first_block) *
              shape_.num_heads;
      for (int head = 0; head < shape_.num_heads; ++head) {
        blocks_selected_[s] += lengths[head] == kAllBlocks ? i + 1 : lengths[head];
      }
    }
  }
}

// Rows that the selection leaves dense differ in nothing, and would hide those that do.
absl::Status AttentionGroup::Compare(const AttentionLayer& layer,
                                     std::span<const std::int32_t> targets, int longest_row,
                                     Stream& stream) {
  if (std::ranges::all_of(targets, [](std::int32_t k) { return k == 0; })) {
    return absl::OkStatus();
  }
  AttentionLayer dense = layer;
  dense.out.data = dense_out_.get();
  if (absl::Status status = dense_kernel_->Run(dense_plan_, dense, SelectAll{}, stream);
      !status.ok()) {
    return status;
  }
  if (absl::Status status = stream.Synchronize(); !status.ok()) return status;
  const std::int64_t width = std::int64_t{shape_.num_heads} * shape_.head_dim;
  double difference = 0, size = 0;
  for (std::size_t s = 0; s < sequences_.size(); ++s) {
    const std::int32_t target = targets[s];
    if (target == 0) continue;
    // The row at position p has p + 1 keys.
    const int context = sequences_[s].context_length;
    const int first_row = std::clamp(target - context, 0, sequences_[s].query_length);
    const int end_row = std::clamp(longest_row - context, first_row, sequences_[s].query_length);
    const std::int64_t first = (first_row_[s] + first_row) * width;
    const std::int64_t end = (first_row_[s] + end_row) * width;
    for (std::int64_t i = first; i < end; ++i) {
      const double exact = static_cast<double>(ElementOf(dense.out, i));
      const double error = static_cast<double>(ElementOf(layer.out, i)) - exact;
      difference += error * error;
      size += exact * exact;
    }
  }
  // A layer that puts out nothing has no relative error.
  if (!(size > 0)) return absl::OkStatus();
  const double relative = std::sqrt(difference / size);
  const auto bucket = std::lower_bound(kOutputErrorBounds.begin(), kOutputErrorBounds.end(),
                                       static_cast<float>(relative)) -
                      kOutputErrorBounds.begin();
  ++shadow_.output_error_buckets[static_cast<std::size_t>(bucket)];
  shadow_.output_error_sum += relative;
  return absl::OkStatus();
}

void AttentionGroup::Collect(StepAttentionReport& report) const {
  const std::int64_t layers = shape_.num_layers;
  const PolicyKind& kind = *PolicyKinds()[static_cast<std::size_t>(kind_)];
  for (std::size_t s = 0; s < sequences_.size(); ++s) {
    const SequenceAttention& sequence = sequences_[s];
    AttentionCounts& counts = report.sequences[static_cast<std::size_t>(indices_[s])];
    if (sequence.context_length < sequence.prompt_length) {
      const CountedBlocks counted = CountedIn(sequence);
      std::int64_t pairs = 0;
      for (int i = counted.first; i < counted.end; ++i) pairs += i + 1;
      counts.blocks += pairs * shape_.num_heads * layers;
      counts.blocks_selected += mechanism_ == AttentionMechanism::kBlocks
                                    ? blocks_selected_[s]
                                    : pairs * shape_.num_heads * layers;
    }
    CollectRows(s, counts, report);
    // Once for the sequence, not for each rank.
    const std::optional<DenseFallback> fallback = kind.FallbackOf(sequence, catalog_);
    if (fallback.has_value() && shape_.first_head == 0) {
      ++counts.dense_fallbacks[static_cast<std::size_t>(*fallback)];
    }
  }
  AddBuckets(shadow_.output_error_buckets, report.shadow.output_error_buckets);
  report.shadow.output_error_sum += shadow_.output_error_sum;
}

void AttentionGroup::CollectRows(std::size_t s, AttentionCounts& counts,
                                 StepAttentionReport& report) const {
  const SequenceAttention& sequence = sequences_[s];
  const bool decodes = sequence.context_length >= sequence.prompt_length;
  const auto num_kv_heads = static_cast<std::int64_t>(shape_.num_kv_heads);
  const std::int64_t group_size = shape_.num_heads / shape_.num_kv_heads;
  std::int64_t all_rows = 0, keys = 0, values = 0, sums = 0;
  for (int j = 0; j < sequence.query_length; ++j) {
    const int num_keys = sequence.context_length + j + 1;
    all_rows += num_keys * num_kv_heads * shape_.num_layers;
    if (!is_thresholded()) continue;
    ThresholdFidelity& fidelity = report.fidelity[RowLengthIndex(num_keys)];
    const ThresholdCounts* of_row =
        static_cast<const ThresholdCounts*>(counts_.get()) + (query_start_[s] + j) * num_kv_heads;
    for (std::int64_t g = 0; g < num_kv_heads; ++g) {
      keys += of_row[g].key_rows;
      values += of_row[g].value_rows;
      sums += of_row[g].num_heads / group_size * sums_per_block_ *
              ((num_keys + shape_.block_size - 1) / shape_.block_size);
      fidelity.ratio_sum += static_cast<double>(of_row[g].ratio_sum);
      fidelity.dropped_mass_sum += static_cast<double>(of_row[g].dropped_mass_sum);
      AddBuckets(of_row[g].ratio_buckets, fidelity.ratio_buckets);
      AddBuckets(of_row[g].dropped_mass_buckets, fidelity.dropped_mass_buckets);
    }
  }
  if (!decodes) return;
  counts.value_rows += all_rows;
  counts.value_rows_read += is_thresholded() ? values : all_rows;
  counts.key_rows_read += is_thresholded() ? keys : all_rows;
  counts.kv_bytes_dense += 2 * all_rows * row_bytes_;
  counts.kv_bytes_read += (is_thresholded() ? keys + values : 2 * all_rows) * row_bytes_ +
                          sums * shape_.head_dim * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace thresher
