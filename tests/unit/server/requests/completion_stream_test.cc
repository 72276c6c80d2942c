#include "server/requests/completion_stream.h"

#include <gtest/gtest.h>

#include "tests/unit/server/server_fixture.h"

namespace thresher {
namespace {

struct Ended {
  std::vector<std::string> texts;
  std::vector<ChoiceUpdate> last;  // the choices' last updates
  std::vector<int> finishes;
  StreamUsage usage;
  absl::Status status;
};

Ended RunToEnd(ServerFixture& server, CompletionRequest request) {
  Ended ended;
  auto mapped = MapRequest(std::move(request), *server.model, absl::Now());
  EXPECT_TRUE(mapped.ok()) << mapped.status();
  auto stream = CompletionStream::Start(*server.engine, *std::move(mapped), nullptr, 0);
  EXPECT_TRUE(stream.ok()) << stream.status();
  const auto choices = static_cast<std::size_t>((*stream)->num_choices());
  ended.texts.resize(choices);
  ended.last.resize(choices);
  ended.finishes.resize(choices);
  std::vector<ChoiceUpdate> updates;
  for (bool more = true; more;) {
    (*stream)->Wait(absl::Seconds(10));
    const auto polled = (*stream)->Poll(updates);
    ended.status = polled.status();
    if (!polled.ok()) return ended;
    more = *polled;
    for (const ChoiceUpdate& update : updates) {
      const auto index = static_cast<std::size_t>(update.index);
      ended.texts[index] += update.text;
      ended.finishes[index] += update.finish.has_value();
      ended.last[index] = update;
    }
  }
  ended.usage = (*stream)->usage();
  return ended;
}

CompletionRequest Prompt(int max_tokens) {
  CompletionRequest request;
  request.prompts.emplace_back("abc");
  request.max_tokens = max_tokens;
  return request;
}

TEST(CompletionStreamTest, EndsByTheEndToken) {
  ServerFixture server;
  const Ended ended = RunToEnd(server, Prompt(100));
  EXPECT_EQ(ended.texts[0], "Hello, world.");
  EXPECT_EQ(ended.last[0].finish, FinishReason::kStop);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(ended.last[0].stop_reason));
  EXPECT_EQ(ended.usage.prompt_tokens, 3);
  EXPECT_EQ(ended.usage.completion_tokens, 14);
  EXPECT_EQ(ended.usage.decode_policy, "dense");
}

TEST(CompletionStreamTest, EndsByLength) {
  ServerFixture server;
  const Ended ended = RunToEnd(server, Prompt(5));
  EXPECT_EQ(ended.texts[0], "Hello");
  EXPECT_EQ(ended.last[0].finish, FinishReason::kLength);
  EXPECT_EQ(ended.usage.completion_tokens, 5);
}

TEST(CompletionStreamTest, APromptThatFillsTheContextYieldsOneToken) {
  ServerFixture server;
  CompletionRequest request;
  request.prompts.emplace_back(std::string(512, 'x'));
  request.default_max_tokens = 16;
  const Ended ended = RunToEnd(server, request);
  EXPECT_TRUE(ended.status.ok()) << ended.status;
  EXPECT_EQ(ended.texts[0], "H");
  EXPECT_EQ(ended.last[0].finish, FinishReason::kLength);
  EXPECT_EQ(ended.usage.completion_tokens, 1);
}

TEST(CompletionStreamTest, OnlyAnAnswerOfItsOwnLosesTheTokenizersSpace) {
  ServerFixture server({.reply = " said he", .strips_leading_space = true});
  CompletionRequest request = Prompt(100);
  EXPECT_EQ(RunToEnd(server, request).texts[0], " said he");
  request.echo = true;
  EXPECT_EQ(RunToEnd(server, request).texts[0], "abc said he");
  CompletionRequest chat;
  chat.chat.emplace();
  chat.chat->messages = "[]";
  EXPECT_EQ(RunToEnd(server, chat).texts[0], "said he");
  chat.chat->add_generation_prompt = false;
  chat.chat->continue_final_message = true;
  EXPECT_EQ(RunToEnd(server, chat).texts[0], " said he");
}

TEST(CompletionStreamTest, StopStringsCutAcrossTokens) {
  ServerFixture server;
  CompletionRequest request = Prompt(100);
  request.stop = {"never", "o, w"};
  const Ended ended = RunToEnd(server, request);
  EXPECT_EQ(ended.texts[0], "Hell");
  EXPECT_EQ(ended.last[0].finish, FinishReason::kStop);
  EXPECT_EQ(std::get<std::string>(ended.last[0].stop_reason), "o, w");
  EXPECT_EQ(ended.usage.completion_tokens, 8);

  request.include_stop_in_output = true;
  EXPECT_EQ(RunToEnd(server, request).texts[0], "Hello, w");
}

TEST(CompletionStreamTest, HeldBackTextComesAtTheEnd) {
  ServerFixture server;
  CompletionRequest request = Prompt(5);
  request.stop = {"Hello, wonder"};
  const Ended ended = RunToEnd(server, request);
  EXPECT_EQ(ended.texts[0], "Hello");
  EXPECT_EQ(ended.last[0].finish, FinishReason::kLength);
}

TEST(CompletionStreamTest, NoStopStringEndsAChoiceBeforeMinTokens) {
  ServerFixture server;
  CompletionRequest request = Prompt(100);
  request.stop = {"l"};
  request.min_tokens = 6;
  EXPECT_EQ(RunToEnd(server, request).texts[0], "Hello, wor");
}

TEST(CompletionStreamTest, EveryChoiceOfEveryPromptFinishesOnce) {
  ServerFixture server;
  CompletionRequest request = Prompt(4);
  request.prompts.emplace_back("longer prompt");
  request.n = 3;
  const Ended ended = RunToEnd(server, request);
  ASSERT_EQ(ended.texts.size(), 6u);
  for (const std::string& text : ended.texts) EXPECT_EQ(text, "Hell");
  EXPECT_EQ(ended.finishes, std::vector<int>(6, 1));
  EXPECT_EQ(ended.usage.completion_tokens, 24);
  EXPECT_EQ(ended.usage.prompt_tokens, 16);
}

TEST(CompletionStreamTest, CodePointsAreNeverSplit) {
  ServerFixture server({.reply = "a\xF0\x9F\x98\x80z"});
  for (int length = 1; length <= 6; ++length) {
    const Ended ended = RunToEnd(server, Prompt(length));
    const std::string expected = length == 1  ? "a"
                                 : length < 5 ? "a\xEF\xBF\xBD"
                                 : length < 6 ? "a\xF0\x9F\x98\x80"
                                              : "a\xF0\x9F\x98\x80z";
    EXPECT_EQ(ended.texts[0], expected) << length;
  }
}

TEST(CompletionStreamTest, AskedStopTokensAreTheReason) {
  ServerFixture server;
  CompletionRequest request = Prompt(100);
  request.stop_token_ids = {','};
  const Ended ended = RunToEnd(server, request);
  EXPECT_EQ(ended.texts[0], "Hello");
  EXPECT_EQ(std::get<TokenId>(ended.last[0].stop_reason), ',');
}

TEST(CompletionStreamTest, DeadlinesEndTheStreamWithTheirError) {
  ServerFixture server;
  CompletionRequest request = Prompt(100);
  request.deadline = absl::Now() - absl::Seconds(1);
  EXPECT_EQ(RunToEnd(server, request).status.code(), absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace thresher
