// How one sequence's tokens are drawn: its request's parameters as the device's sampler reads them,
// and the token counts that penalties need.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/runner/model_runner.h"
#include "kernels/ops/sampling.h"

namespace thresher {

// Rank 0 has one for each sequence. A token that is drawn again after a preemption finds the counts
// as they were the first time.
class SequenceSampler final {
 public:
  explicit SequenceSampler(const SequenceStart& start);

  // For the token at `position`, counted from the prompt's first. Borrows from the sampler until
  // its next call.
  SamplingRow RowFor(int position);
  // The token drawn for that position.
  void Accept(TokenId token);

 private:
  void CountGenerated(TokenId token, int change);

  const std::shared_ptr<const GenerationRequest> request_;
  const std::uint32_t choice_index_;
  const bool counts_tokens_;  // a penalty is on
  std::vector<TokenBias> logit_bias_;
  std::vector<TokenId> generated_;  // empty unless counts_tokens_
  std::vector<TokenCount> counts_;  // ascending by token
};

}  // namespace thresher
