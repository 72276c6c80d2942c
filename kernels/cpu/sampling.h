// One row of logits to one token; the twin's part behind TransformerOps::Sample and ScoreTokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

// The field of `row` that is out of range, or null. Passes over all the lists of the row.
const char* BadField(const SamplingRow& row, std::int64_t vocab);

// What a row gets that draws nothing; `bad_field` as in SampledToken.
SampledToken NoToken(const char* bad_field);

// Draws a token by the rules of ops/sampling.h. Changes `logits` [vocab] by biases and penalties
// only. The row has been validated.
SampledToken SampleRow(const RowOps& ops, std::span<float> logits, const SamplingRow& row,
                       SamplingScratch& scratch);

// Log-probability and rank of `target`, and the num_top most likely tokens.
SampledToken ScoreRow(const RowOps& ops, std::span<const float> logits, std::int32_t target,
                      int num_top, SamplingScratch& scratch);

}  // namespace thresher
