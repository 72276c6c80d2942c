#include "engine/runner/sequence_sampler.h"

#include <gtest/gtest.h>

#include <limits>

namespace thresher {
namespace {

SequenceStart Start(SamplingParams sampling, std::vector<TokenId> prompt = {5, 9, 5}) {
  auto request = std::make_shared<GenerationRequest>();
  request->prompt = std::move(prompt);
  request->sampling = std::move(sampling);
  if (!request->sampling.seed.has_value()) request->sampling.seed = 1;
  return {RequestId{1}, 0, false, request, PrepareSampling(*request, 64)};
}

std::vector<std::array<int, 3>> CountsOf(const SamplingRow& row) {
  std::vector<std::array<int, 3>> counts;
  for (const TokenCount& count : row.counts) {
    counts.push_back({count.token, count.in_prompt, count.generated});
  }
  return counts;
}

TEST(SequenceSampler, PassesTheParametersOn) {
  SequenceStart start = Start({.temperature = 0.5,
                               .top_p = 0.25,
                               .top_k = 7,
                               .min_p = 0.125,
                               .seed = std::numeric_limits<std::uint64_t>::max(),
                               .logprobs = 3});
  start.choice_index = 4;
  SequenceSampler sampler(start);
  const SamplingRow row = sampler.RowFor(3);
  EXPECT_EQ(row.temperature, 0.5f);
  EXPECT_EQ(row.top_p, 0.25f);
  EXPECT_EQ(row.top_k, 7);
  EXPECT_EQ(row.min_p, 0.125f);
  EXPECT_EQ(row.seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(row.choice_index, 4u);
  EXPECT_EQ(row.position, 3u);
  EXPECT_EQ(row.num_top_logprobs, 3);
  EXPECT_TRUE(row.counts.empty());
  EXPECT_TRUE(row.banned.empty());
}

TEST(SequenceSampler, CountsOnlyWhenAPenaltyIsOn) {
  SequenceSampler off(Start({}));
  off.RowFor(3);
  off.Accept(9);
  EXPECT_TRUE(off.RowFor(4).counts.empty());
  for (const SamplingParams& on :
       {SamplingParams{.repetition_penalty = 1.1}, SamplingParams{.presence_penalty = 0.5},
        SamplingParams{.frequency_penalty = -0.5}}) {
    SequenceSampler sampler(Start(on));
    EXPECT_EQ(CountsOf(sampler.RowFor(3)), (std::vector<std::array<int, 3>>{{5, 2, 0}, {9, 1, 0}}));
    sampler.Accept(7);
    sampler.RowFor(4);
    sampler.Accept(9);
    EXPECT_EQ(CountsOf(sampler.RowFor(5)),
              (std::vector<std::array<int, 3>>{{5, 2, 0}, {7, 0, 1}, {9, 1, 1}}));
  }
}

TEST(SequenceSampler, ATokenDrawnAgainFindsTheCountsOfItsFirstTime) {
  SequenceSampler sampler(Start({.presence_penalty = 1}));
  for (int position = 3; position < 8; ++position) {
    sampler.RowFor(position);
    sampler.Accept(10 + position % 2);
  }
  EXPECT_EQ(CountsOf(sampler.RowFor(5)),
            (std::vector<std::array<int, 3>>{{5, 2, 0}, {9, 1, 0}, {10, 0, 1}, {11, 0, 1}}));
}

TEST(SequenceSampler, BansEveryStopTokenBelowMinTokens) {
  auto request = std::make_shared<GenerationRequest>();
  request->prompt = {5, 6};
  request->sampling.seed = 1;
  request->stop_token_ids = {1, 2, 8};
  request->min_tokens = 3;
  SequenceSampler sampler({RequestId{1}, 0, false, request, PrepareSampling(*request, 64)});
  for (int position = 2; position < 8; ++position) {
    EXPECT_EQ(sampler.RowFor(position).banned.size(), position < 5 ? 3u : 0u) << position;
  }
}

TEST(SequenceSampler, SortsTheBiasAndTheLastOfEqualTokensHolds) {
  SequenceSampler sampler(Start({.logit_bias = {{30, 1.0f}, {4, 2.0f}, {30, 3.0f}}}));
  const SamplingRow row = sampler.RowFor(3);
  ASSERT_EQ(row.logit_bias.size(), 2u);
  EXPECT_EQ(row.logit_bias[0].token, 4);
  EXPECT_EQ(row.logit_bias[0].bias, 2.0f);
  EXPECT_EQ(row.logit_bias[1].token, 30);
  EXPECT_EQ(row.logit_bias[1].bias, 3.0f);
}

}  // namespace
}  // namespace thresher
