#include "server/requests/request_mapping.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "server/requests/wire_error.h"
#include "tests/unit/server/server_fixture.h"

namespace thresher {
namespace {

const absl::Time kNow = absl::UnixEpoch() + absl::Hours(1);

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

CompletionRequest Prompt(const std::string& text) {
  CompletionRequest request;
  request.prompts.emplace_back(text);
  return request;
}

TEST(RequestMappingTest, AppliesDefaults) {
  ServerFixture server;
  const auto mapped = MapRequest(Prompt("abc"), *server.model, kNow);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  ASSERT_EQ(mapped->requests.size(), 1u);
  const GenerationRequest& request = mapped->requests[0];
  EXPECT_EQ(request.prompt, (std::vector<TokenId>{'a', 'b', 'c'}));
  EXPECT_EQ(request.sampling.temperature, 1);
  EXPECT_EQ(request.sampling.top_p, 1);
  EXPECT_EQ(request.n, 1);
  EXPECT_FALSE(request.max_tokens.has_value());
  EXPECT_FALSE(request.sampling.seed.has_value());
  EXPECT_EQ(request.attention.level, "off");
  EXPECT_EQ(request.request_id, mapped->request_id);
  EXPECT_EQ(mapped->request_id.compare(0, 5, "cmpl-"), 0);
  EXPECT_EQ(request.deadline, kNow + absl::Seconds(600));
}

TEST(RequestMappingTest, CarriesEveryField) {
  ServerFixture server;
  CompletionRequest request = Prompt("abc");
  request.temperature = 0.5;
  request.top_p = 0.25;
  request.top_k = 7;
  request.min_p = 0.125;
  request.repetition_penalty = 1.5;
  request.presence_penalty = -1;
  request.frequency_penalty = 2;
  request.seed = -1;
  request.logit_bias = {{5, -100}, {999, 100}};
  request.max_tokens = 12;
  request.min_tokens = 3;
  request.n = 2;
  request.priority = -4;
  request.ignore_eos = true;
  request.stop = {"x", "yy"};
  request.stop_token_ids = {0, 999};
  request.include_stop_in_output = true;
  request.logprobs = 20;
  request.return_token_ids = true;
  request.skip_special_tokens = false;
  request.request_id = "mine";
  request.deadline = kNow + absl::Seconds(5);
  const auto mapped = MapRequest(request, *server.model, kNow);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  const GenerationRequest& one = mapped->requests[0];
  EXPECT_EQ(one.sampling.temperature, 0.5);
  EXPECT_EQ(one.sampling.top_p, 0.25);
  EXPECT_EQ(one.sampling.top_k, 7);
  EXPECT_EQ(one.sampling.min_p, 0.125);
  EXPECT_EQ(one.sampling.repetition_penalty, 1.5);
  EXPECT_EQ(one.sampling.presence_penalty, -1);
  EXPECT_EQ(one.sampling.frequency_penalty, 2);
  EXPECT_EQ(one.sampling.seed, 18446744073709551615u);
  EXPECT_EQ(one.sampling.logit_bias.size(), 2u);
  EXPECT_EQ(one.sampling.logprobs, 20);
  EXPECT_FALSE(one.sampling.prompt_logprobs.has_value());
  EXPECT_EQ(one.max_tokens, 12);
  EXPECT_EQ(one.min_tokens, 3);
  EXPECT_EQ(one.n, 2);
  EXPECT_EQ(one.priority, -4);
  EXPECT_TRUE(one.ignore_eos);
  EXPECT_EQ(one.stop_token_ids, (std::vector<TokenId>{0, 999}));
  EXPECT_EQ(one.request_id, "mine");
  EXPECT_EQ(one.deadline, kNow + absl::Seconds(5));
  EXPECT_EQ(mapped->output.stop, request.stop);
  EXPECT_TRUE(mapped->output.include_stop_in_output);
  EXPECT_TRUE(mapped->output.return_token_ids);
  EXPECT_FALSE(mapped->output.skip_special_tokens);
  EXPECT_EQ(mapped->output.min_tokens, 3);
}

TEST(RequestMappingTest, RefusesEachValueOutOfRangeByName) {
  ServerFixture server;
  const struct {
    const char* param;
    std::function<void(CompletionRequest&)> change;
  } cases[] = {
      {"temperature", [](auto& r) { r.temperature = -0.1; }},
      {"temperature", [](auto& r) { r.temperature = 2.1; }},
      {"temperature", [](auto& r) { r.temperature = kNan; }},
      {"temperature", [](auto& r) { r.temperature = kInf; }},
      {"top_p", [](auto& r) { r.top_p = 0; }},
      {"top_p", [](auto& r) { r.top_p = kNan; }},
      {"top_k", [](auto& r) { r.top_k = -2; }},
      {"top_k", [](auto& r) { r.top_k = std::int64_t{1} << 40; }},
      {"min_p", [](auto& r) { r.min_p = 1.1; }},
      {"min_p", [](auto& r) { r.min_p = kNan; }},
      {"repetition_penalty", [](auto& r) { r.repetition_penalty = 0; }},
      {"presence_penalty", [](auto& r) { r.presence_penalty = 2.5; }},
      {"frequency_penalty", [](auto& r) { r.frequency_penalty = -2.5; }},
      {"logit_bias",
       [](auto& r) {
         r.logit_bias = {{99999999, 5}};
       }},
      {"logit_bias",
       [](auto& r) {
         r.logit_bias = {{-1, 5}};
       }},
      {"logit_bias",
       [](auto& r) {
         r.logit_bias = {{5, 101}};
       }},
      {"logit_bias",
       [](auto& r) {
         r.logit_bias = {{5, kNan}};
       }},
      {"stop_token_ids", [](auto& r) { r.stop_token_ids = {2147483647}; }},
      {"stop_token_ids", [](auto& r) { r.stop_token_ids = {-1}; }},
      {"stop", [](auto& r) { r.stop = {""}; }},
      {"stop",
       [](auto& r) {
         r.stop = {"", "x"};
       }},
      {"stop",
       [](auto& r) {
         r.stop = {"1", "2", "3", "4", "5"};
       }},
      {"stop", [](auto& r) { r.stop = {std::string(2000, 'x')}; }},
      {"n", [](auto& r) { r.n = 0; }},
      {"n", [](auto& r) { r.n = 129; }},
      {"max_tokens", [](auto& r) { r.max_tokens = 0; }},
      {"max_tokens", [](auto& r) { r.max_tokens = -1; }},
      {"max_tokens", [](auto& r) { r.max_tokens = std::int64_t{1} << 40; }},
      {"min_tokens", [](auto& r) { r.min_tokens = -1; }},
      {"min_tokens", [](auto& r) { r.max_tokens = 3, r.min_tokens = 4; }},
      {"logprobs", [](auto& r) { r.logprobs = 21; }},
      {"logprobs", [](auto& r) { r.logprobs = -1; }},
      {"prompt_logprobs", [](auto& r) { r.prompt_logprobs = 21; }},
      {"priority", [](auto& r) { r.priority = std::int64_t{1} << 40; }},
      {"priority", [](auto& r) { r.priority = 1001; }},
      {"priority", [](auto& r) { r.priority = -1001; }},
      {"logit_bias",
       [](auto& r) {
         r.logit_bias.assign(1025, {5, 1});
       }},
      {"prompt", [](auto& r) { r.prompts = {""}; }},
      {"prompt", [](auto& r) { r.prompts = {}; }},
      {"prompt", [](auto& r) { r.prompts = {std::vector<std::int64_t>{}}; }},
      {"prompt", [](auto& r) { r.prompts = {std::vector<std::int64_t>{999999}}; }},
      {"prompt", [](auto& r) { r.prompts = {std::vector<std::int64_t>{-1}}; }},
      {"request_id", [](auto& r) { r.request_id = std::string(300, 'x'); }},
      {"attention.level", [](auto& r) { r.attention.given = true, r.attention.level = "hi"; }},
  };
  for (const auto& row : cases) {
    CompletionRequest request = Prompt("abc");
    row.change(request);
    const auto mapped = MapRequest(request, *server.model, kNow);
    ASSERT_FALSE(mapped.ok()) << row.param;
    const WireErrorFields fields = DescribeError(mapped.status());
    EXPECT_EQ(fields.param, row.param) << mapped.status();
    EXPECT_EQ(fields.http_status, 400);
    EXPECT_TRUE(fields.deterministic);
    EXPECT_NE(fields.message.find(row.param), std::string::npos) << fields.message;
  }
}

TEST(RequestMappingTest, TooLongIsAlwaysTheSameErrorWithBothCounts) {
  ServerFixture server;  // 512 tokens
  CompletionRequest fits = Prompt(std::string(511, 'x'));
  fits.max_tokens = 1;
  EXPECT_TRUE(MapRequest(fits, *server.model, kNow).ok());
  for (const int length : {512, 513, 2048}) {
    CompletionRequest request = Prompt(std::string(static_cast<std::size_t>(length), 'x'));
    request.max_tokens = 1;
    const auto mapped = MapRequest(request, *server.model, kNow);
    ASSERT_FALSE(mapped.ok()) << length;
    const WireErrorFields fields = DescribeError(mapped.status());
    EXPECT_EQ(fields.code, "context_length_exceeded");
    EXPECT_EQ(fields.http_status, 400);
    EXPECT_NE(fields.message.find("512"), std::string::npos) << fields.message;
    EXPECT_NE(fields.message.find(std::to_string(length)), std::string::npos) << fields.message;
  }
  // The longest token has fewer bytes than the floor of 64.
  const std::string limit = "at most 32768 fit this model's maximum context length of 512 tokens";
  // Text that no vocabulary could fit is not tokenised first.
  const auto huge = MapRequest(Prompt(std::string(1 << 20, 'x')), *server.model, kNow);
  EXPECT_EQ(DescribeError(huge.status()).code, "context_length_exceeded");
  EXPECT_EQ(huge.status().message(), "prompt has 1048576 bytes; " + limit);
  CompletionRequest chat;
  chat.chat.emplace();
  chat.chat->messages = std::string(1 << 20, 'x');
  const WireErrorFields fields = DescribeError(MapRequest(chat, *server.model, kNow).status());
  EXPECT_EQ(fields.code, "context_length_exceeded");
  EXPECT_EQ(fields.param, "messages");
}

TEST(RequestMappingTest, ARoutesDefaultLengthIsCappedByTheContext) {
  ServerFixture server;
  CompletionRequest request = Prompt(std::string(506, 'x'));
  request.default_max_tokens = 16;
  const auto mapped = MapRequest(request, *server.model, kNow);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ(mapped->requests[0].max_tokens, 6);
}

TEST(RequestMappingTest, APromptThatFillsTheContextMayAskForNoLimitOfItsOwn) {
  ServerFixture server;
  CompletionRequest full = Prompt(std::string(512, 'x'));
  for (const bool has_default : {false, true}) {
    if (has_default) full.default_max_tokens = 16;
    const auto mapped = MapRequest(full, *server.model, kNow);
    ASSERT_TRUE(mapped.ok()) << mapped.status();
    EXPECT_FALSE(mapped->requests[0].max_tokens.has_value());
  }
  CompletionRequest longer = Prompt(std::string(513, 'x'));
  longer.default_max_tokens = 16;
  const WireErrorFields fields = DescribeError(MapRequest(longer, *server.model, kNow).status());
  EXPECT_EQ(fields.param, "prompt");
  EXPECT_EQ(fields.code, "context_length_exceeded");
}

TEST(RequestMappingTest, TheLargestPriorityAndTheMostBiasesAreTaken) {
  ServerFixture server;
  CompletionRequest request = Prompt("x");
  for (std::int64_t id = 0; id < 1024; ++id) request.logit_bias.emplace_back(id % 1000, 1);
  for (const std::int64_t priority : {-1000, 1000}) {
    request.priority = priority;
    const auto mapped = MapRequest(request, *server.model, kNow);
    ASSERT_TRUE(mapped.ok()) << mapped.status();
    EXPECT_EQ(mapped->requests[0].priority, priority);
  }
}

TEST(RequestMappingTest, EchoAllowsZeroTokensAndScoresThePrompt) {
  ServerFixture server;
  CompletionRequest request = Prompt("abc");
  request.echo = true;
  request.max_tokens = 0;
  auto mapped = MapRequest(request, *server.model, kNow);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ(mapped->requests[0].max_tokens, 0);
  EXPECT_TRUE(mapped->requests[0].sampling.prompt_logprobs.has_value());
  EXPECT_EQ(mapped->echo_texts, std::vector<std::string>{"abc"});
  request.logprobs = 2;
  mapped = MapRequest(request, *server.model, kNow);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(mapped->requests[0].sampling.prompt_logprobs, 2);
}

TEST(RequestMappingTest, ChatErrorsUseTheNamesOfTheChat) {
  ServerFixture server;
  CompletionRequest request;
  request.chat.emplace();
  request.chat->messages = "[refuse me]";
  request.logprobs_field = "top_logprobs";
  request.max_tokens_field = "max_completion_tokens";
  auto mapped = MapRequest(request, *server.model, kNow);
  EXPECT_EQ(DescribeError(mapped.status()).param, "messages");
  EXPECT_EQ(mapped.status().message(), "Conversation roles must alternate");
  request.chat->messages = "[]";
  request.logprobs = 21;
  EXPECT_EQ(DescribeError(MapRequest(request, *server.model, kNow).status()).param, "top_logprobs");
  request.logprobs.reset();
  request.max_tokens = 5000;
  mapped = MapRequest(request, *server.model, kNow);
  EXPECT_EQ(DescribeError(mapped.status()).param, "max_completion_tokens");
  EXPECT_EQ(DescribeError(mapped.status()).code, "context_length_exceeded");
}

TEST(RequestMappingTest, UnknownModelsAreNotFound) {
  ServerFixture server;
  for (const char* name : {"no-such-model", ""}) {
    CompletionRequest request = Prompt("x");
    request.model = name;
    const auto mapped = MapRequest(request, *server.model, kNow);
    EXPECT_EQ(mapped.status().code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(DescribeError(mapped.status()).code, "model_not_found");
  }
  CompletionRequest request = Prompt("x");
  request.model = "fake";
  EXPECT_TRUE(MapRequest(request, *server.model, kNow).ok());
}

TEST(RequestMappingTest, ChoicesOfAllPromptsAreCounted) {
  ServerFixture server;
  CompletionRequest request;
  for (int i = 0; i < 4; ++i) request.prompts.emplace_back("x");
  request.n = 32;
  EXPECT_TRUE(MapRequest(request, *server.model, kNow).ok());
  request.n = 33;
  EXPECT_EQ(DescribeError(MapRequest(request, *server.model, kNow).status()).param, "n");
}

}  // namespace
}  // namespace thresher
