// What a request gives: tokens, choices, seeds, ends, usage and log-probabilities, over the fake
// runner, which notices any wrong block, slot or token.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "engine/request_error.h"
#include "tests/support/fakes/fake_engine.h"

namespace thresher {
namespace {

// What a request alone on an idle engine must give.
std::vector<TokenId> Expected(const FakeEngine& fake, const GenerationRequest& request, int choice,
                              int num_tokens) {
  std::vector<TokenId> tokens = request.prompt;
  for (int i = 0; i < num_tokens; ++i) {
    tokens.push_back(FakeNextToken(fake.runner_options, tokens, request, choice));
  }
  return {tokens.end() - num_tokens, tokens.end()};
}

TEST(ServingEngine, GeneratesUpToMaxTokens) {
  FakeEngine fake({});
  const GenerationRequest request = Request(100, 40);
  const auto handle = MustSubmit(*fake.engine, request);
  const std::vector<TokenEvent> events = ReadAll(*handle);
  EXPECT_EQ(TokensOf(events, 0), Expected(fake, request, 0, 40));
  EXPECT_EQ(LastOf(events, 0).finish, FinishReason::kLength);
  EXPECT_EQ(handle->usage().prompt_tokens, 100);
  EXPECT_EQ(handle->usage().generated_tokens, 40);
  EXPECT_EQ(handle->usage().cached_tokens, 0);
}

TEST(ServingEngine, ManyRequestsAtOnceEachGetTheirOwnTokens) {
  FakeEngineOptions options;
  options.scheduler.num_blocks = 40;  // not for all at once
  FakeEngine fake(options);
  std::vector<GenerationRequest> requests;
  std::vector<std::unique_ptr<RequestHandle>> handles;
  for (int i = 0; i < 60; ++i) {
    requests.push_back(Request(1 + i * 7 % 300, 5 + i % 50, i % 3));
    handles.push_back(MustSubmit(*fake.engine, requests.back()));
  }
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(TokensOf(ReadAll(*handles[i]), 0),
              Expected(fake, requests[i], 0, *requests[i].max_tokens))
        << i;
  }
}

TEST(ServingEngine, PreemptedRequestsEqualTheirSoloRuns) {
  FakeEngineOptions options;
  options.scheduler.num_blocks = 9;
  options.scheduler.block_size = 16;
  options.scheduler.reserve_tokens = 1;
  options.max_model_len = 120;
  CountingObserver observer;
  FakeEngine fake(options, &observer);
  std::vector<GenerationRequest> requests;
  std::vector<std::unique_ptr<RequestHandle>> handles;
  for (int i = 0; i < 4; ++i) {
    requests.push_back(Request(20, 0, 10 * i));
    requests.back().max_tokens = std::nullopt;
    handles.push_back(MustSubmit(*fake.engine, requests.back()));
  }
  for (int i = 0; i < 4; ++i) {
    const std::vector<TokenEvent> events = ReadAll(*handles[i]);
    EXPECT_EQ(TokensOf(events, 0), Expected(fake, requests[i], 0, 100)) << i;
    EXPECT_EQ(LastOf(events, 0).finish, FinishReason::kLength);
  }
  EXPECT_GT(observer.num_preemptions.load(), 0);
}

TEST(ServingEngine, APromptThatFillsTheContextYieldsOneToken) {
  FakeEngineOptions options;
  options.max_model_len = 64 * 4;
  options.scheduler.num_blocks = 4;
  FakeEngine fake(options);
  GenerationRequest request = Request(256, 0);
  request.max_tokens = std::nullopt;
  const auto handle = MustSubmit(*fake.engine, request);
  const std::vector<TokenEvent> events = ReadAll(*handle);
  EXPECT_EQ(TokensOf(events, 0), Expected(fake, request, 0, 1));
  EXPECT_EQ(LastOf(events, 0).finish, FinishReason::kLength);
}

TEST(ServingEngine, WithoutMaxTokensGoesOnToTheContextsEnd) {
  FakeEngineOptions options;
  options.max_model_len = 90;
  FakeEngine fake(options);
  GenerationRequest request = Request(30, 0);
  request.max_tokens = std::nullopt;
  const auto handle = MustSubmit(*fake.engine, request);
  EXPECT_EQ(TokensOf(ReadAll(*handle), 0), Expected(fake, request, 0, 60));
}

TEST(ServingEngine, EndTokenStopsAndIsNotPartOfTheText) {
  FakeEngineOptions options;
  options.end_tokens = {2};
  options.runner.draw = [](const SequenceStart&, int position, TokenId drawn) {
    return position == 15 ? 2 : drawn;
  };
  FakeEngine fake(options);
  GenerationRequest request = Request(10, 40);
  const auto handle = MustSubmit(*fake.engine, request);
  const std::vector<TokenEvent> events = ReadAll(*handle);
  EXPECT_EQ(TokensOf(events, 0), Expected(fake, request, 0, 5));
  EXPECT_EQ(LastOf(events, 0).finish, FinishReason::kStop);
  EXPECT_EQ(LastOf(events, 0).stop_token, 2);
  EXPECT_EQ(handle->usage().generated_tokens, 6);

  request.ignore_eos = true;
  EXPECT_EQ(TokensOf(ReadAll(*MustSubmit(*fake.engine, request)), 0).size(), 40u);

  // An explicit stop id stops even so.
  request.stop_token_ids = {2};
  EXPECT_EQ(TokensOf(ReadAll(*MustSubmit(*fake.engine, request)), 0).size(), 5u);
}

TEST(ServingEngine, ChoicesAreTheSeedsOwnAndShareThePrompt) {
  FakeEngine fake({});
  GenerationRequest request = Request(200, 12);
  request.sampling.temperature = 1;
  request.sampling.seed = 77;
  request.n = 5;
  const auto handle = MustSubmit(*fake.engine, request);
  const std::vector<TokenEvent> events = ReadAll(*handle);
  for (int choice = 0; choice < 5; ++choice) {
    EXPECT_EQ(TokensOf(events, choice), Expected(fake, request, choice, 12)) << choice;
    EXPECT_EQ(LastOf(events, choice).finish, FinishReason::kLength);
  }
  EXPECT_NE(TokensOf(events, 0), TokensOf(events, 1));
  EXPECT_EQ(handle->usage().generated_tokens, 60);
  EXPECT_EQ(handle->usage().prompt_tokens, 200);
}

TEST(ServingEngine, AnAbsentSeedIsDrawnFromTheEnginesSeed) {
  GenerationRequest request = Request(20, 10);
  request.sampling.temperature = 1;
  std::vector<std::vector<TokenId>> first, second;
  for (auto* runs : {&first, &second}) {
    FakeEngine fake({});
    for (int i = 0; i < 2; ++i) {
      runs->push_back(TokensOf(ReadAll(*MustSubmit(*fake.engine, request)), 0));
    }
  }
  EXPECT_EQ(first, second);
  EXPECT_NE(first[0], first[1]);
}

TEST(ServingEngine, ASecondRunHitsThePrefixCache) {
  FakeEngine fake({});
  const GenerationRequest request = Request(200, 8);
  const std::vector<TokenId> cold = TokensOf(ReadAll(*MustSubmit(*fake.engine, request)), 0);
  const auto handle = MustSubmit(*fake.engine, request);
  EXPECT_EQ(TokensOf(ReadAll(*handle), 0), cold);
  EXPECT_EQ(handle->usage().cached_tokens, 192);
}

TEST(ServingEngine, PromptLogprobsAreCompleteHotOrCold) {
  FakeEngineOptions options;
  options.scheduler.max_running = 8;
  options.scheduler.token_budget = 136;
  FakeEngine fake(options);
  GenerationRequest request = Request(300, 0);
  request.sampling.prompt_logprobs = 1;
  request.n = 2;
  std::vector<float> first;
  for (int run = 0; run < 3; ++run) {
    request.max_tokens = run == 2 ? 4 : 0;
    const auto handle = MustSubmit(*fake.engine, request);
    const std::vector<TokenEvent> events = ReadAll(*handle);
    EXPECT_EQ(TokensOf(events, 0).size(), static_cast<std::size_t>(*request.max_tokens));
    EXPECT_EQ(LastOf(events, 0).finish, FinishReason::kLength);
    EXPECT_EQ(handle->usage().generated_tokens, 2 * *request.max_tokens);
    const PromptLogprobs* scores = handle->prompt_logprobs();
    ASSERT_NE(scores, nullptr);
    ASSERT_EQ(scores->size(), 300u);
    EXPECT_FALSE((*scores)[0].has_value());
    std::vector<float> logprobs;
    for (std::size_t i = 1; i < scores->size(); ++i) {
      ASSERT_TRUE((*scores)[i].has_value()) << i;
      logprobs.push_back((*scores)[i]->logprob);
    }
    if (run == 0) first = logprobs;
    EXPECT_EQ(logprobs, first);
  }
}

TEST(ServingEngine, LogprobsComeWithEachTokenWhenAsked) {
  FakeEngine fake({});
  GenerationRequest request = Request(4, 3);
  request.sampling.logprobs = 2;
  const std::vector<TokenEvent> events = ReadAll(*MustSubmit(*fake.engine, request));
  ASSERT_EQ(events.size(), 3u);
  for (const TokenEvent& event : events) {
    ASSERT_TRUE(event.logprobs.has_value());
    EXPECT_EQ(event.logprobs->top.size(), 2u);
  }
}

TEST(ServingEngine, ANaNRowFailsItsRequestAlone) {
  FakeEngineOptions options;
  options.runner.draw = [](const SequenceStart& sequence, int position, TokenId drawn) {
    return sequence.request->prompt[0] == 7 && position == 12 ? -1 : drawn;
  };
  FakeEngine fake(options);
  const GenerationRequest good = Request(10, 20, 50);
  const auto bad_handle = MustSubmit(*fake.engine, Request(10, 20, 7));
  const auto good_handle = MustSubmit(*fake.engine, good);
  const std::vector<TokenEvent> events = ReadAll(*bad_handle);
  EXPECT_EQ(LastOf(events, 0).finish, FinishReason::kError);
  EXPECT_EQ(LastOf(events, 0).status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(TokensOf(ReadAll(*good_handle), 0), Expected(fake, good, 0, 20));
  EXPECT_EQ(fake.engine->health(), EngineHealth::kServing);
}

TEST(ServingEngine, ARowThatTheSamplerRefusesFailsItsRequestAlone) {
  FakeEngineOptions options;
  options.runner.bad_field = "min_p";
  options.runner.draw = [](const SequenceStart& sequence, int position, TokenId drawn) {
    return sequence.request->prompt[0] == 7 && position == 12 ? -1 : drawn;
  };
  FakeEngine fake(options);
  const GenerationRequest good = Request(10, 20, 50);
  const auto bad_handle = MustSubmit(*fake.engine, Request(10, 20, 7));
  const auto good_handle = MustSubmit(*fake.engine, good);
  const TokenEvent last = LastOf(ReadAll(*bad_handle), 0);
  EXPECT_EQ(last.finish, FinishReason::kError);
  EXPECT_EQ(last.status,
            absl::InvalidArgumentError("the sampler cannot draw: min_p is out of range"));
  EXPECT_EQ(TokensOf(ReadAll(*good_handle), 0), Expected(fake, good, 0, 20));
  EXPECT_EQ(fake.engine->health(), EngineHealth::kServing);
  ExpectClean(*fake.engine);
}

TEST(ServingEngine, APromptTokenWithoutAScoreFailsItsRequestAlone) {
  FakeEngineOptions options;
  options.runner.bad_prompt_token = 9;
  FakeEngine fake(options);
  GenerationRequest bad = Request(10, 20, 5), good = Request(10, 20, 50);
  bad.sampling.prompt_logprobs = good.sampling.prompt_logprobs = 1;
  bad.n = 2;
  const auto bad_handle = MustSubmit(*fake.engine, bad);
  const auto good_handle = MustSubmit(*fake.engine, good);
  const std::vector<TokenEvent> events = ReadAll(*bad_handle);
  for (const int choice : {0, 1}) {
    EXPECT_EQ(LastOf(events, choice).status.code(), absl::StatusCode::kInternal);
  }
  EXPECT_EQ(TokensOf(ReadAll(*good_handle), 0), Expected(fake, good, 0, 20));
  ExpectClean(*fake.engine);
}

TEST(ServingEngine, RefusesABadRequestBeforeAnyWork) {
  FakeEngine fake({});
  GenerationRequest request = Request(2, 4);
  request.prompt[1] = 1000;
  const auto handle = fake.engine->Submit(request, nullptr, 0);
  EXPECT_EQ(ErrorField(handle.status()), "prompt");
  EXPECT_EQ(fake.runner->num_launched(), 0);
}

TEST(ServingEngine, ARequestIdIsTakenWhileItsRequestIsOpen) {
  FakeEngine fake({});
  fake.runner->Hold();
  GenerationRequest request = Request(4, 3);
  request.request_id = "mine";
  const auto first = MustSubmit(*fake.engine, request);
  EXPECT_EQ(ErrorField(fake.engine->Submit(request, nullptr, 0).status()), "request_id");
  fake.runner->Release();
  ReadAll(*first);
  ReadAll(*MustSubmit(*fake.engine, request));
}

TEST(ServingEngine, AFullQueueIsRefusedWithItsLimit) {
  FakeEngineOptions options;
  options.scheduler.max_queued_requests = 3;
  options.scheduler.max_running = 1;
  FakeEngine fake(options);
  fake.runner->Hold();
  std::vector<std::unique_ptr<RequestHandle>> handles;
  handles.push_back(MustSubmit(*fake.engine, Request(4, 3)));
  fake.runner->AwaitHeldWait();
  for (int i = 0; i < 3; ++i) handles.push_back(MustSubmit(*fake.engine, Request(4, 3)));
  const absl::Status refused = fake.engine->Submit(Request(4, 3), nullptr, 0).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(refused.message()).find("limit is 3"), std::string::npos) << refused;
  fake.runner->Release();
  for (const auto& handle : handles) EXPECT_EQ(TokensOf(ReadAll(*handle), 0).size(), 3u);
  ReadAll(*MustSubmit(*fake.engine, Request(4, 3)));
}

}  // namespace
}  // namespace thresher
