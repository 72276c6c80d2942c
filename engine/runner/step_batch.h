// A step plan as the rows that a model reads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/runner/batch_inputs.h"
#include "scheduler/step_plan.h"

namespace thresher {

// Reused from step to step; allocates only while it grows beyond what was reserved. One thread.
class StepBatch final {
 public:
  StepBatch(int block_size, int max_tokens, int max_sequences);

  // `last_tokens` has for each sequence of the plan the token to put where the plan says
  // kPendingToken, or the DrawnToken that stands for it.
  void Build(const StepPlan& plan, std::span<const TokenId> last_tokens);

  // Adds rows up to `num_rows` whose results nobody asks for: token 0 at position 0, not cached.
  // Each also follows sample_rows in padded_sample_rows.
  void PadTo(int num_rows);

  BatchInputs inputs() const {
    return {.token_ids = token_ids_, .positions = positions_, .slot_mapping = slot_mapping_};
  }
  // The first row of each sequence, and one more: [num_sequences + 1].
  std::span<const std::int32_t> row_start() const { return row_start_; }
  // The last row of each sequence that samples, in the plan's order.
  std::span<const std::int32_t> sample_rows() const {
    return std::span(sample_rows_).first(num_samples_);
  }
  std::span<const std::int32_t> padded_sample_rows() const { return sample_rows_; }

 private:
  const int block_size_;
  std::vector<TokenId> token_ids_;
  std::vector<std::int32_t> positions_;
  std::vector<std::int64_t> slot_mapping_;
  std::vector<std::int32_t> row_start_, sample_rows_;
  std::size_t num_samples_ = 0;
};

}  // namespace thresher
