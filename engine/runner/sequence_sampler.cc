#include "engine/runner/sequence_sampler.h"

#include <algorithm>

namespace thresher {
namespace {

bool HasPenalty(const SamplingParams& sampling) {
  return sampling.repetition_penalty != 1 || sampling.presence_penalty != 0 ||
         sampling.frequency_penalty != 0;
}

}  // namespace

SequenceSampler::SequenceSampler(const SequenceStart& start)
    : request_(start.request),
      choice_index_(static_cast<std::uint32_t>(start.choice_index)),
      counts_tokens_(HasPenalty(request_->sampling)) {
  for (const auto& [token, bias] : request_->sampling.logit_bias) {
    logit_bias_.push_back({token, bias});
  }
  std::stable_sort(logit_bias_.begin(), logit_bias_.end(),
                   [](const TokenBias& a, const TokenBias& b) { return a.token < b.token; });
  // Of two entries for one token the later one holds, as in a map.
  const auto same = [](const TokenBias& a, const TokenBias& b) { return a.token == b.token; };
  logit_bias_.erase(logit_bias_.begin(),
                    std::unique(logit_bias_.rbegin(), logit_bias_.rend(), same).base());
  if (!counts_tokens_) return;
  std::vector<TokenId> prompt = request_->prompt;
  std::sort(prompt.begin(), prompt.end());
  for (const TokenId token : prompt) {
    if (counts_.empty() || counts_.back().token != token) counts_.push_back({token, 0, 0});
    ++counts_.back().in_prompt;
  }
}

SamplingRow SequenceSampler::RowFor(int position) {
  const SamplingParams& sampling = request_->sampling;
  const int num_generated = position - static_cast<int>(request_->prompt.size());
  while (static_cast<int>(generated_.size()) > num_generated) {
    CountGenerated(generated_.back(), -1);
    generated_.pop_back();
  }
  SamplingRow row;
  row.temperature = static_cast<float>(sampling.temperature);
  row.top_k = sampling.top_k;
  row.top_p = static_cast<float>(sampling.top_p);
  row.min_p = static_cast<float>(sampling.min_p);
  row.repetition_penalty = static_cast<float>(sampling.repetition_penalty);
  row.presence_penalty = static_cast<float>(sampling.presence_penalty);
  row.frequency_penalty = static_cast<float>(sampling.frequency_penalty);
  row.seed = *sampling.seed;
  row.choice_index = choice_index_;
  row.position = static_cast<std::uint32_t>(position);
  row.num_top_logprobs = sampling.logprobs.value_or(-1);
  row.counts = counts_;
  row.logit_bias = logit_bias_;
  if (num_generated < request_->min_tokens) row.banned = request_->stop_token_ids;
  return row;
}

void SequenceSampler::Accept(TokenId token) {
  if (!counts_tokens_) return;
  generated_.push_back(token);
  CountGenerated(token, 1);
}

void SequenceSampler::CountGenerated(TokenId token, int change) {
  const auto at =
      std::lower_bound(counts_.begin(), counts_.end(), token,
                       [](const TokenCount& count, TokenId id) { return count.token < id; });
  if (at != counts_.end() && at->token == token) {
    at->generated += change;
  } else {
    counts_.insert(at, {token, 0, change});
  }
}

}  // namespace thresher
