#include "engine/request_validation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "engine/request_error.h"

namespace thresher {
namespace {

constexpr RequestLimits kLimits{.vocab_size = 100, .max_model_len = 50};

GenerationRequest Good() {
  GenerationRequest request;
  request.prompt = {1, 2, 99};
  request.max_tokens = 47;
  return request;
}

TEST(RequestValidation, TakesTheLimitsThemselves) {
  EXPECT_TRUE(ValidateRequest(Good(), kLimits).ok());
  GenerationRequest request = Good();
  request.sampling = {.temperature = 2,
                      .top_p = 1e-6,
                      .top_k = -1,
                      .min_p = 1,
                      .repetition_penalty = 10,
                      .presence_penalty = -2,
                      .frequency_penalty = 2,
                      .seed = std::numeric_limits<std::uint64_t>::max(),
                      .logit_bias = {{0, -100.0f}, {99, 100.0f}},
                      .logprobs = 20,
                      .prompt_logprobs = 0};
  request.n = 128;
  request.min_tokens = 47;
  request.stop_token_ids = {0, 99};
  EXPECT_TRUE(ValidateRequest(request, kLimits).ok());
  request.max_tokens = request.min_tokens = 0;
  EXPECT_TRUE(ValidateRequest(request, kLimits).ok());
  request = Good();
  request.prompt.assign(50, 7);
  request.max_tokens = std::nullopt;
  EXPECT_TRUE(ValidateRequest(request, kLimits).ok());
}

TEST(RequestValidation, NamesEachBadField) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  struct Case {
    const char* field;
    std::function<void(GenerationRequest&)> spoil;
  };
  const Case kCases[] = {
      {"prompt", [](auto& r) { r.prompt.clear(); }},
      {"prompt", [](auto& r) { r.prompt[1] = 100; }},
      {"prompt", [](auto& r) { r.prompt[1] = -1; }},
      {"temperature", [](auto& r) { r.sampling.temperature = -0.1; }},
      {"temperature", [](auto& r) { r.sampling.temperature = 2.1; }},
      {"temperature", [=](auto& r) { r.sampling.temperature = nan; }},
      {"temperature", [=](auto& r) { r.sampling.temperature = infinity; }},
      {"top_p", [](auto& r) { r.sampling.top_p = 0; }},
      {"top_p", [](auto& r) { r.sampling.top_p = 1.1; }},
      {"top_p", [=](auto& r) { r.sampling.top_p = nan; }},
      {"top_k", [](auto& r) { r.sampling.top_k = -2; }},
      {"min_p", [](auto& r) { r.sampling.min_p = 1.5; }},
      {"min_p", [=](auto& r) { r.sampling.min_p = nan; }},
      {"repetition_penalty", [](auto& r) { r.sampling.repetition_penalty = 0; }},
      {"repetition_penalty", [](auto& r) { r.sampling.repetition_penalty = 1e-300; }},
      {"repetition_penalty", [](auto& r) { r.sampling.repetition_penalty = 0.0099; }},
      {"presence_penalty", [](auto& r) { r.sampling.presence_penalty = 3; }},
      {"frequency_penalty", [=](auto& r) { r.sampling.frequency_penalty = -infinity; }},
      {"logit_bias",
       [](auto& r) {
         r.sampling.logit_bias = {{100, 1.0f}};
       }},
      {"logit_bias",
       [](auto& r) {
         r.sampling.logit_bias = {{-1, 1.0f}};
       }},
      {"logit_bias",
       [](auto& r) {
         r.sampling.logit_bias = {{1, 101.0f}};
       }},
      {"logit_bias",
       [=](auto& r) {
         r.sampling.logit_bias = {{1, std::nanf("")}};
       }},
      {"logprobs", [](auto& r) { r.sampling.logprobs = 21; }},
      {"logprobs", [](auto& r) { r.sampling.logprobs = -1; }},
      {"prompt_logprobs", [](auto& r) { r.sampling.prompt_logprobs = 21; }},
      {"max_tokens", [](auto& r) { r.max_tokens = -1; }},
      {"max_tokens", [](auto& r) { r.max_tokens = 0; }},
      {"max_tokens", [](auto& r) { r.max_tokens = std::numeric_limits<int>::max(); }},
      {"min_tokens", [](auto& r) { r.min_tokens = -1; }},
      {"min_tokens", [](auto& r) { r.min_tokens = 48; }},
      {"stop_token_ids", [](auto& r) { r.stop_token_ids = {2147483647}; }},
      {"stop_token_ids", [](auto& r) { r.stop_token_ids = {-1}; }},
      {"n", [](auto& r) { r.n = 0; }},
      {"n", [](auto& r) { r.n = 129; }},
      {"request_id", [](auto& r) { r.request_id.assign(300, 'x'); }},
      {"attention.prefill.policy", [](auto& r) { r.attention.prefill.policy = "stm"; }},
      {"attention.decode.policy", [](auto& r) { r.attention.decode.policy = ""; }},
      {"attention.decode.k",
       [](auto& r) {
         r.attention.decode.parameters = {{"k", 16}};
       }},
  };
  for (const Case& bad : kCases) {
    GenerationRequest request = Good();
    bad.spoil(request);
    const absl::Status status = ValidateRequest(request, kLimits);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.field;
    EXPECT_EQ(ErrorField(status), bad.field) << status;
    EXPECT_EQ(std::string(status.message()).rfind(bad.field, 0), 0u) << status;
  }
}

TEST(RequestValidation, ATooLongRequestTellsBothCounts) {
  GenerationRequest request = Good();
  request.prompt.assign(51, 7);
  request.max_tokens = std::nullopt;
  absl::Status status = ValidateRequest(request, kLimits);
  EXPECT_TRUE(IsContextLengthError(status));
  EXPECT_EQ(ErrorField(status), "prompt");
  EXPECT_NE(std::string(status.message()).find("51"), std::string::npos);
  EXPECT_NE(std::string(status.message()).find("50"), std::string::npos);

  request = Good();
  request.max_tokens = 48;
  status = ValidateRequest(request, kLimits);
  EXPECT_TRUE(IsContextLengthError(status));
  EXPECT_EQ(ErrorField(status), "max_tokens");
  EXPECT_NE(std::string(status.message()).find("51 in all"), std::string::npos) << status;

  request.max_tokens = -1;
  EXPECT_FALSE(IsContextLengthError(ValidateRequest(request, kLimits)));
}

}  // namespace
}  // namespace thresher
