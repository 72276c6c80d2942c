#include "engine/runner/step_batch.h"

namespace thresher {

StepBatch::StepBatch(int block_size, int max_tokens, int max_sequences) : block_size_(block_size) {
  const auto num_tokens = static_cast<std::size_t>(max_tokens);
  const auto num_sequences = static_cast<std::size_t>(max_sequences);
  token_ids_.reserve(num_tokens);
  positions_.reserve(num_tokens);
  slot_mapping_.reserve(num_tokens);
  row_start_.reserve(num_sequences + 1);
  sample_rows_.reserve(num_sequences);
}

void StepBatch::Build(const StepPlan& plan, std::span<const TokenId> last_tokens) {
  token_ids_.clear();
  positions_.clear();
  slot_mapping_.clear();
  sample_rows_.clear();
  row_start_.assign(1, 0);
  for (std::size_t i = 0; i < plan.sequences.size(); ++i) {
    const ScheduledSequence& sequence = plan.sequences[i];
    const std::span<const BlockId> blocks = plan.BlocksOf(sequence);
    int position = sequence.context_length;
    for (const TokenId token : plan.TokensOf(sequence)) {
      const auto block = blocks[static_cast<std::size_t>(position / block_size_)];
      token_ids_.push_back(token == kPendingToken ? last_tokens[i] : token);
      positions_.push_back(position);
      slot_mapping_.push_back(static_cast<std::int64_t>(block) * block_size_ +
                              position % block_size_);
      ++position;
    }
    const auto num_rows = static_cast<std::int32_t>(token_ids_.size());
    row_start_.push_back(num_rows);
    if (sequence.samples) sample_rows_.push_back(num_rows - 1);
  }
  num_samples_ = sample_rows_.size();
}

void StepBatch::PadTo(int num_rows) {
  for (auto row = static_cast<int>(token_ids_.size()); row < num_rows; ++row) {
    token_ids_.push_back(0);
    positions_.push_back(0);
    slot_mapping_.push_back(-1);
    sample_rows_.push_back(row);
  }
}

}  // namespace thresher
