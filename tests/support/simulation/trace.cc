#include "tests/support/simulation/trace.h"

#include <algorithm>

namespace thresher::simulation {
namespace {

constexpr int kVocabulary = 5;  // small, so that different prompts often agree for a block
constexpr int kNumSharedPrefixes = 3;

}  // namespace

Trace::Trace(const TraceOptions& options, const SchedulerOptions& scheduler)
    : options_(options), scheduler_(scheduler), random_(options.seed * 7919 + 1) {
  for (int i = 0; i < kNumSharedPrefixes; ++i) {
    std::vector<TokenId> prefix(random_.Between(1, std::max(1, options_.max_prompt)));
    for (TokenId& token : prefix) token = random_.Between(0, kVocabulary - 1);
    shared_prefixes_.push_back(std::move(prefix));
  }
}

std::vector<TracedRequest> Trace::NextBurst() {
  std::vector<TracedRequest> burst;
  if (!random_.Percent(options_.burst_percent)) return burst;
  const int count = random_.Between(1, options_.max_burst);
  const bool group = random_.Percent(options_.group_percent);
  for (int i = 0; i < count; ++i) {
    burst.push_back(NextRequest());
    if (group && i > 0) {
      const RequestSpec& leader = burst[0].spec;
      RequestSpec& follower = burst[i].spec;
      follower.prompt = leader.prompt;
      follower.max_new_tokens = leader.max_new_tokens;
      follower.prefix_salts = leader.prefix_salts;
      follower.prefill_chunk_multiple = leader.prefill_chunk_multiple;
      follower.priority = leader.priority;
      follower.prefix_leader = leader.id;
    }
  }
  return burst;
}

TracedRequest Trace::NextRequest() {
  TracedRequest request;
  RequestSpec& spec = request.spec;
  spec.id = RequestId{next_id_++};
  spec.prompt = NextPrompt();
  if (random_.Percent(options_.limit_percent)) {
    spec.max_new_tokens = random_.Between(1, options_.max_output);
  }
  spec.priority = random_.Between(0, options_.num_priorities - 1);
  constexpr int kMultiples[] = {1, 1, 16, 32, 24};
  spec.prefill_chunk_multiple = kMultiples[random_.Between(0, 4)];
  spec.use_prefix_cache = !random_.Percent(options_.bypass_percent);
  spec.prefix_salts = NextSalts(static_cast<int>(spec.prompt.size()));
  request.end_after = random_.Between(1, options_.max_output);
  return request;
}

std::vector<TokenId> Trace::NextPrompt() {
  int length = random_.Between(options_.min_prompt, options_.max_prompt);
  if (random_.Percent(options_.oversize_percent)) {
    length = random_.Between(1, 2 * scheduler_.max_sequence_length);
  }
  std::vector<TokenId> prompt(length);
  for (TokenId& token : prompt) token = random_.Between(0, kVocabulary - 1);
  if (random_.Percent(options_.share_percent)) {
    const auto& prefix = shared_prefixes_[Pick(kNumSharedPrefixes)];
    const int shared = std::min(length, static_cast<int>(prefix.size()));
    std::copy_n(prefix.begin(), shared, prompt.begin());
  }
  return prompt;
}

// The three forms that policies take: dense; decoding sparsely behind a dense prompt, accepting
// what its own policy decoded; sparse from the third block of a prompt on.
std::vector<SaltSpan> Trace::NextSalts(int prompt_length) {
  if (!random_.Percent(options_.salted_percent)) return {{0, 0, 0}};
  const std::uint64_t policy = static_cast<std::uint64_t>(random_.Between(1, 2));
  if (random_.Percent(50)) return {{0, 0, policy}, {prompt_length, policy, 0}};
  const int sparse_from = 2 * scheduler_.block_size;
  std::vector<SaltSpan> spans = {{0, 0, 0}};
  if (sparse_from < prompt_length) spans.push_back({sparse_from, policy + 10, policy + 10});
  spans.push_back({prompt_length, policy, policy});
  return spans;
}

}  // namespace thresher::simulation
