// What one step runs: flat arrays that the plan owns and reuses, and what came of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/ids.h"

namespace thresher {

// One sequence's share of a step. Offsets index the plan's flat arrays.
struct ScheduledSequence {
  RequestId id{};
  int context_length = 0;  // tokens whose K and V are cached before this step
  int query_length = 0;    // tokens run now
  bool samples = false;    // the last of them yields a token
  // The token ids run now. Where the step that samples the last of them has not committed yet, the
  // plan holds kPendingToken there and the runner puts in the token it sampled for this sequence.
  int first_token = 0;  // into StepPlan::tokens, query_length of them
  int first_block = 0;  // into StepPlan::block_table
  int num_blocks = 0;   // covers context_length + query_length
};

inline constexpr TokenId kPendingToken = -1;

struct StepPlan {
  StepId step{};
  std::vector<ScheduledSequence> sequences;  // decodes first
  std::vector<TokenId> tokens;
  std::vector<BlockId> block_table;
  int num_tokens = 0;   // sum of query lengths
  int num_samples = 0;  // sequences with `samples`

  bool empty() const { return sequences.empty(); }
  std::span<const TokenId> TokensOf(const ScheduledSequence& s) const {
    return {tokens.data() + s.first_token, static_cast<std::size_t>(s.query_length)};
  }
  std::span<const BlockId> BlocksOf(const ScheduledSequence& s) const {
    return {block_table.data() + s.first_block, static_cast<std::size_t>(s.num_blocks)};
  }
};

// One entry for each sequence of the plan that samples, in the plan's order.
struct StepResult {
  struct Sample {
    TokenId token = 0;
    bool ends = false;  // an end token or a stop id: the request finishes with this token
  };
  std::span<const Sample> samples;
};

}  // namespace thresher
