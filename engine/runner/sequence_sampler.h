// How one sequence's tokens are drawn: its request's parameters as the device's sampler reads them,
// and the token counts that penalties need.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/runner/model_runner.h"
#include "kernels/ops/sampling.h"

namespace thresher {

// What a request's sampling needs of passes over its prompt and its lists: made once, by the thread
// that submits the request, so that no step waits for it. Immutable.
struct PreparedSampling {
  std::vector<TokenBias> logit_bias;      // ascending; of equal tokens the last one's
  std::vector<TokenCount> prompt_counts;  // ascending; empty unless a penalty is on
  int max_generated = 0;                  // tokens that a choice draws at most
};
std::shared_ptr<const PreparedSampling> PrepareSampling(const GenerationRequest& request,
                                                        int max_generated);

// Allocates when it is made, then nothing. Rank 0 has one for each sequence. A token that is drawn
// again after a preemption finds the counts as they were the first time.
class SequenceSampler final {
 public:
  explicit SequenceSampler(const SequenceStart& start);

  // Whether Accept must have seen every token before the next one is drawn: a penalty is on.
  bool counts_tokens() const { return counts_tokens_; }
  // For the token at `position`, counted from the prompt's first. Borrows from the sampler until
  // its next call.
  SamplingRow RowFor(int position);
  // The token drawn for that position.
  void Accept(TokenId token);

 private:
  void CountGenerated(TokenId token, int change);

  const std::shared_ptr<const GenerationRequest> request_;
  const std::shared_ptr<const PreparedSampling> prepared_;
  const std::uint32_t choice_index_;
  const bool counts_tokens_;
  std::vector<TokenId> generated_;  // empty unless counts_tokens_
  std::vector<TokenCount> counts_;  // ascending by token
};

}  // namespace thresher
