#include "server/http/json_request.h"

#include <gtest/gtest.h>

#include "server/requests/wire_error.h"

namespace thresher {
namespace {

struct BadField {
  const char* members;  // of the body, beside a good prompt
  const char* param;
};

const BadField kBadInBoth[] = {
    {R"("model":1)", "model"},
    {R"("stream":"true")", "stream"},
    {R"("max_tokens":"256")", "max_tokens"},
    {R"("max_tokens":true)", "max_tokens"},
    {R"("max_tokens":16.0)", "max_tokens"},
    {R"("max_tokens":123456789012345678901234567890)", "max_tokens"},
    {R"("temperature":"0.7")", "temperature"},
    {R"("temperature":[1])", "temperature"},
    {R"("top_p":{})", "top_p"},
    {R"("top_k":1.5)", "top_k"},
    {R"("min_p":"x")", "min_p"},
    {R"("repetition_penalty":false)", "repetition_penalty"},
    {R"("presence_penalty":"1")", "presence_penalty"},
    {R"("frequency_penalty":"1")", "frequency_penalty"},
    {R"("seed":1.5)", "seed"},
    {R"("seed":"1")", "seed"},
    {R"("logit_bias":[1])", "logit_bias"},
    {R"("logit_bias":{"x":1})", "logit_bias"},
    {R"("logit_bias":{"5":"1"})", "logit_bias"},
    {R"("stop":1)", "stop"},
    {R"("stop":["a",1])", "stop"},
    {R"("stop_token_ids":5)", "stop_token_ids"},
    {R"("stop_token_ids":["5"])", "stop_token_ids"},
    {R"("include_stop_str_in_output":1)", "include_stop_str_in_output"},
    {R"("min_tokens":"1")", "min_tokens"},
    {R"("ignore_eos":1)", "ignore_eos"},
    {R"("n":1.5)", "n"},
    {R"("n":"2")", "n"},
    {R"("echo":1)", "echo"},
    {R"("prompt_logprobs":true)", "prompt_logprobs"},
    {R"("return_token_ids":1)", "return_token_ids"},
    {R"("skip_special_tokens":1)", "skip_special_tokens"},
    {R"("add_special_tokens":1)", "add_special_tokens"},
    {R"("priority":"high")", "priority"},
    {R"("request_id":7)", "request_id"},
    {R"("user":7)", "user"},
    {R"("stream_options":{"include_usage":true})", "stream_options"},
    {R"("stream":true,"stream_options":[1])", "stream_options"},
    {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options"},
    {R"("stream":true,"stream_options":{"include_obfuscation":true})", "stream_options"},
    {R"("store":true)", "store"},
    {R"("service_tier":"flex")", "service_tier"},
    {R"("attention":7)", "attention"},
    {R"("attention":null)", "attention"},
    {R"("attention":{"lvl":"off"})", "attention.lvl"},
    {R"("attention":{"level":1})", "attention.level"},
    {R"("attention":{"decode":"top_theta"})", "attention.decode"},
    {R"("attention":{"decode":{"k":"256"}})", "attention.decode.k"},
    {R"("attention":{"prefill":{"policy":1}})", "attention.prefill.policy"},
};

std::string ParamOf(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return DescribeError(status).param;
}

TEST(JsonRequestTest, EveryWrongTypeNamesItsFieldOnBothRoutes) {
  for (const BadField& bad : kBadInBoth) {
    const std::string completion = std::string("{\"prompt\":\"x\",") + bad.members + "}";
    const auto read = ReadCompletionBody(completion, 64);
    ASSERT_FALSE(read.ok()) << completion;
    EXPECT_EQ(ParamOf(read.status()), bad.param) << completion;
    const std::string chat =
        std::string(R"({"messages":[{"role":"user","content":"x"}],)") + bad.members + "}";
    const auto read_chat = ReadChatBody(chat, 64);
    ASSERT_FALSE(read_chat.ok()) << chat;
    EXPECT_EQ(ParamOf(read_chat.status()), bad.param) << chat;
  }
}

TEST(JsonRequestTest, FieldsOfOneRouteThatItCannotHonourAreNamed) {
  for (const BadField& bad : std::initializer_list<BadField>{
           {R"("suffix":"x")", "suffix"},
           {R"("best_of":2)", "best_of"},
           {R"("logprobs":true)", "logprobs"},
       }) {
    const auto read = ReadCompletionBody(std::string("{\"prompt\":\"x\",") + bad.members + "}", 64);
    ASSERT_FALSE(read.ok()) << bad.members;
    EXPECT_EQ(ParamOf(read.status()), bad.param);
  }
  for (const BadField& bad : std::initializer_list<BadField>{
           {R"("tools":[{"type":"function"}])", "tools"},
           {R"("tool_choice":"auto")", "tool_choice"},
           {R"("functions":[{}])", "functions"},
           {R"("function_call":"auto")", "function_call"},
           {R"("response_format":{"type":"json_object"})", "response_format"},
           {R"("modalities":["text","audio"])", "modalities"},
           {R"("audio":{"voice":"x"})", "audio"},
           {R"("prediction":{"type":"content"})", "prediction"},
           {R"("web_search_options":{})", "web_search_options"},
           {R"("reasoning_effort":"high")", "reasoning_effort"},
           {R"("logprobs":5)", "logprobs"},
           {R"("top_logprobs":3)", "top_logprobs"},
           {R"("max_completion_tokens":"5")", "max_completion_tokens"},
           {R"("chat_template_kwargs":[])", "chat_template_kwargs"},
           {R"("continue_final_message":true,"add_generation_prompt":true)",
            "continue_final_message"},
       }) {
    const auto read = ReadChatBody(
        std::string(R"({"messages":[{"role":"user","content":"x"}],)") + bad.members + "}", 64);
    ASSERT_FALSE(read.ok()) << bad.members;
    EXPECT_EQ(ParamOf(read.status()), bad.param);
  }
}

TEST(JsonRequestTest, NeutralValuesAndUnknownFieldsAreTolerated) {
  const auto read = ReadChatBody(
      R"({"messages":[{"role":"user","content":"x"}],"tools":[],"tool_choice":"none",
          "response_format":{"type":"text"},"modalities":["text"],"store":false,
          "service_tier":"auto","temperature":null,"stop":null,"seed":null,"logit_bias":null,
          "metadata":{"a":"b"},"no_such_field":[1,2],"user":"u","stream":false})",
      64);
  EXPECT_TRUE(read.ok()) << read.status();
}

TEST(JsonRequestTest, ReadsAllPromptForms) {
  const auto prompts = [](const std::string& prompt) {
    const auto read = ReadCompletionBody("{\"prompt\":" + prompt + "}", 64);
    EXPECT_TRUE(read.ok()) << read.status();
    return read.ok() ? read->request.prompts : std::vector<PromptInput>();
  };
  using Ids = std::vector<std::int64_t>;
  EXPECT_EQ(prompts(R"("hi")"), (std::vector<PromptInput>{"hi"}));
  EXPECT_EQ(prompts(R"(["a","b"])"), (std::vector<PromptInput>{"a", "b"}));
  EXPECT_EQ(prompts("[1,2]"), (std::vector<PromptInput>{Ids{1, 2}}));
  EXPECT_EQ(prompts("[[1],[2,3]]"), (std::vector<PromptInput>{Ids{1}, Ids{2, 3}}));
  for (const char* bad : {"[]", "null", "7", "{}", R"(["a",1])", R"([1,"a"])", "[[1],2]", "[1.5]",
                          R"([["a"]])", "[true]"}) {
    const auto read = ReadCompletionBody(std::string("{\"prompt\":") + bad + "}", 64);
    ASSERT_FALSE(read.ok()) << bad;
    EXPECT_EQ(ParamOf(read.status()), "prompt") << bad;
  }
  EXPECT_EQ(ParamOf(ReadCompletionBody("{}", 64).status()), "prompt");
}

TEST(JsonRequestTest, MessagesAreCheckedAndNormalised) {
  const auto messages = [](const std::string& text) {
    const auto read = ReadChatBody("{\"messages\":" + text + "}", 64);
    EXPECT_TRUE(read.ok()) << read.status();
    return read.ok() ? read->request.chat->messages : "";
  };
  const std::string plain = messages(R"([{"role":"user","content":"hi"}])");
  EXPECT_EQ(messages(R"([{"role":"user","content":[{"type":"text","text":"hi"}]}])"), plain);
  EXPECT_EQ(messages(R"([{"role":"assistant","content":null,"tool_calls":[{"id":"1",
      "type":"function","function":{"name":"f","arguments":"{\"city\":\"Paris\"}"}}]}])"),
            R"([{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",)"
            R"("function":{"name":"f","arguments":{"city":"Paris"}}}]}])");
  const struct {
    const char* messages;
    const char* param;
  } bad[] = {
      {"[]", "messages"},
      {"null", "messages"},
      {"{}", "messages"},
      {"[1]", "messages[0]"},
      {R"([{"content":"x"}])", "messages[0].role"},
      {R"([{"role":1,"content":"x"}])", "messages[0].role"},
      {R"([{"role":"user"}])", "messages[0].content"},
      {R"([{"role":"user","content":7}])", "messages[0].content"},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])",
       "messages[0].content[0].type"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
      {R"([{"role":"assistant","tool_calls":[{"function":{"arguments":"{"}}]}])",
       "messages[0].tool_calls[0].function.arguments"},
  };
  for (const auto& row : bad) {
    const auto read = ReadChatBody(std::string("{\"messages\":") + row.messages + "}", 64);
    ASSERT_FALSE(read.ok()) << row.messages;
    EXPECT_EQ(ParamOf(read.status()), row.param) << row.messages;
  }
  EXPECT_EQ(ParamOf(ReadChatBody("{}", 64).status()), "messages");
}

TEST(JsonRequestTest, MaxCompletionTokensWins) {
  const auto read = ReadChatBody(
      R"({"messages":[{"role":"user","content":"x"}],"max_tokens":3,"max_completion_tokens":5})",
      64);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->request.max_tokens, 5);
  EXPECT_EQ(read->request.max_tokens_field, "max_completion_tokens");
}

TEST(JsonRequestTest, AttentionTextIsALevelOrAnObject) {
  const auto level = ReadAttentionText("balanced");
  ASSERT_TRUE(level.ok());
  EXPECT_EQ(level->level, "balanced");
  const auto object = ReadAttentionText(R"({"decode":{"policy":"top_theta","k":256}})");
  ASSERT_TRUE(object.ok());
  EXPECT_EQ(object->decode.policy, "top_theta");
  EXPECT_FALSE(ReadAttentionText("{").ok());
}

}  // namespace
}  // namespace thresher
