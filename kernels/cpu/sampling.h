// One row of logits to one token; the twin's part behind TransformerOps::Sample and ScoreTokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cpu/row_ops.h"
#include "kernels/cpu/token_select.h"
#include "kernels/ops/sampling.h"

namespace thresher {

// Buffers of one thread.
struct SamplingScratch {
  // Makes room for rows of `vocab` logits, so that drawing allocates nothing.
  void Reserve(std::int64_t vocab);

  SelectScratch select;
  std::vector<float> weight;     // [vocab], exp((logit − largest) / temperature)
  std::vector<float> block_sum;  // of `weight`
  std::vector<Candidate> candidates;
  std::vector<Candidate> top;
};

// InvalidArgument naming the field of `row` that is out of range, and the range.
absl::Status ValidateSamplingRow(const SamplingRow& row, std::int64_t vocab);

// Draws a token by the rules of ops/sampling.h. Changes `logits` [vocab] by biases and penalties
// only. The row has been validated.
SampledToken SampleRow(const RowOps& ops, std::span<float> logits, const SamplingRow& row,
                       SamplingScratch& scratch);

// Log-probability and rank of `target`, and the num_top most likely tokens.
SampledToken ScoreRow(const RowOps& ops, std::span<const float> logits, std::int32_t target,
                      int num_top, SamplingScratch& scratch);

}  // namespace thresher
