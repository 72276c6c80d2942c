#include "engine/runner/sequence_sampler.h"

#include <algorithm>

namespace thresher {
namespace {

bool HasPenalty(const SamplingParams& sampling) {
  return sampling.repetition_penalty != 1 || sampling.presence_penalty != 0 ||
         sampling.frequency_penalty != 0;
}

}  // namespace

std::shared_ptr<const PreparedSampling> PrepareSampling(const GenerationRequest& request,
                                                        int max_generated) {
  auto prepared = std::make_shared<PreparedSampling>();
  prepared->max_generated = max_generated;
  std::vector<TokenBias>& biases = prepared->logit_bias;
  for (const auto& [token, bias] : request.sampling.logit_bias) biases.push_back({token, bias});
  std::stable_sort(biases.begin(), biases.end(),
                   [](const TokenBias& a, const TokenBias& b) { return a.token < b.token; });
  // Of two entries for one token the later one holds, as in a map.
  const auto same = [](const TokenBias& a, const TokenBias& b) { return a.token == b.token; };
  biases.erase(biases.begin(), std::unique(biases.rbegin(), biases.rend(), same).base());
  if (!HasPenalty(request.sampling)) return prepared;
  std::vector<TokenId> prompt = request.prompt;
  std::sort(prompt.begin(), prompt.end());
  std::vector<TokenCount>& counts = prepared->prompt_counts;
  for (const TokenId token : prompt) {
    if (counts.empty() || counts.back().token != token) counts.push_back({token, 0, 0});
    ++counts.back().in_prompt;
  }
  return prepared;
}

SequenceSampler::SequenceSampler(const SequenceStart& start)
    : request_(start.request),
      prepared_(start.sampling),
      choice_index_(static_cast<std::uint32_t>(start.choice_index)),
      counts_tokens_(HasPenalty(request_->sampling)) {
  if (!counts_tokens_) return;
  // A step that was planned before the sequence's end was known draws one token more.
  const std::size_t most_generated = static_cast<std::size_t>(prepared_->max_generated) + 1;
  generated_.reserve(most_generated);
  counts_.reserve(prepared_->prompt_counts.size() + most_generated);
  counts_ = prepared_->prompt_counts;
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
  row.logit_bias = prepared_->logit_bias;
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
