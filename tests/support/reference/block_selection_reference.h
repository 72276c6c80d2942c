// Block scores and choices from their definitions, in double: pairs of tokens one by one, sorts of
// whole rows. Slow.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "kernels/ops/block_selector.h"
#include "tests/support/reference/paged_attention_case.h"

namespace thresher {

// One row of M: query block `own` of the sequence and head, blocks 0 to own.
struct ReferenceScores {
  std::vector<double> score;  // −infinity where a block is not scored
  std::vector<double> bound;  // largest allowed difference of a kernel that follows the contract
};

// Not for kRandom and kNone. The value term's statistics are those that `rules` names.
ReferenceScores ReferenceBlockScores(const PagedAttentionCase& attention, int sequence, int head,
                                     int own, const BlockSelectionRules& rules, double beta,
                                     const ValueStatistics& statistics);

// ln(largest norm + 1e-6) of every whole group of `stride` tokens of the sequence; centre null: of
// v itself.
std::vector<double> ReferenceValueGroups(const PagedAttentionCase& attention, int sequence,
                                         int kv_head, int stride, const float* centre);

// The row's list, by sorting all of its scores in the stated order.
std::set<int> ReferenceChoice(std::span<const float> scores, int budget,
                              const BlockSelectionRules& rules);

}  // namespace thresher
