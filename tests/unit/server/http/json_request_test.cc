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
    {R"("seed":9223372036854775808)", "seed"},
    {R"("seed":-9223372036854775809)", "seed"},
    {R"("logit_bias":{" 5":1})", "logit_bias"},
    {R"("logit_bias":{"+5":1})", "logit_bias"},
    {R"("logit_bias":{"05":1})", "logit_bias"},
    {R"("logit_bias":{"5 ":1})", "logit_bias"},
    {R"("logit_bias":{"":1})", "logit_bias"},
    {R"("safety_identifier":7)", "safety_identifier"},
    {R"("prompt_cache_key":[])", "prompt_cache_key"},
    {R"("stop_token_ids":[1,9223372036854775808])", "stop_token_ids"},
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
    {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
    {R"("stream":true,"stream_options":{"include_obfuscation":true})",
     "stream_options.include_obfuscation"},
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

std::string CompletionWith(const std::string& members) {
  return R"({"prompt":"x",)" + members + "}";
}

std::string ChatWith(const std::string& members) {
  return R"({"messages":[{"role":"user","content":"x"}],)" + members + "}";
}

TEST(JsonRequestTest, FieldsThatNeitherRouteCanHonourAreNamed) {
  for (const BadField& bad : std::initializer_list<BadField>{
           {R"("suffix":"x")", "suffix"},
           {R"("best_of":2)", "best_of"},
           {R"("n":2,"best_of":1)", "best_of"},
           {R"("tools":[{"type":"function"}])", "tools"},
           {R"("tool_choice":"auto")", "tool_choice"},
           {R"("parallel_tool_calls":false)", "parallel_tool_calls"},
           {R"("functions":[{}])", "functions"},
           {R"("function_call":"auto")", "function_call"},
           {R"("response_format":{"type":"json_object"})", "response_format"},
           {R"("response_format":{"type":"json_schema","json_schema":{}})", "response_format"},
           {R"("modalities":["text","audio"])", "modalities"},
           {R"("audio":{"voice":"x"})", "audio"},
           {R"("prediction":{"type":"content"})", "prediction"},
           {R"("web_search_options":{})", "web_search_options"},
           {R"("reasoning_effort":"high")", "reasoning_effort"},
           {R"("verbosity":"low")", "verbosity"},
           {R"("metadata":{"a":"b"})", "metadata"},
           {R"("prompt_cache_retention":"24h")", "prompt_cache_retention"},
           {R"("chat_template":"{{ messages }}")", "chat_template"},
       }) {
    const auto completion = ReadCompletionBody(CompletionWith(bad.members), 64);
    ASSERT_FALSE(completion.ok()) << bad.members;
    EXPECT_EQ(ParamOf(completion.status()), bad.param);
    const auto chat = ReadChatBody(ChatWith(bad.members), 64);
    ASSERT_FALSE(chat.ok()) << bad.members;
    EXPECT_EQ(ParamOf(chat.status()), bad.param);
  }
}

TEST(JsonRequestTest, FieldsOfTheOtherRouteAreNamed) {
  for (const BadField& bad : std::initializer_list<BadField>{
           {R"("logprobs":true)", "logprobs"},
           {R"("top_logprobs":3)", "top_logprobs"},
           {R"("max_completion_tokens":3)", "max_completion_tokens"},
           {R"("messages":[])", "messages"},
           {R"("chat_template_kwargs":{"a":1})", "chat_template_kwargs"},
           {R"("add_generation_prompt":false)", "add_generation_prompt"},
           {R"("continue_final_message":true)", "continue_final_message"},
       }) {
    const auto read = ReadCompletionBody(CompletionWith(bad.members), 64);
    ASSERT_FALSE(read.ok()) << bad.members;
    EXPECT_EQ(ParamOf(read.status()), bad.param);
  }
  for (const BadField& bad : std::initializer_list<BadField>{
           {R"("logprobs":5)", "logprobs"},
           {R"("top_logprobs":3)", "top_logprobs"},
           {R"("max_completion_tokens":"5")", "max_completion_tokens"},
           {R"("prompt":"x")", "prompt"},
           {R"("chat_template_kwargs":[])", "chat_template_kwargs"},
           {R"("continue_final_message":true,"add_generation_prompt":true)",
            "continue_final_message"},
       }) {
    const auto read = ReadChatBody(ChatWith(bad.members), 64);
    ASSERT_FALSE(read.ok()) << bad.members;
    EXPECT_EQ(ParamOf(read.status()), bad.param);
  }
}

TEST(JsonRequestTest, ValuesThatAskForNothingAndUnknownFieldsAreTolerated) {
  const std::string common =
      R"("audio":null,"best_of":1,"chat_template":null,"function_call":"none","functions":[],
         "metadata":{},"modalities":["text"],"n":1,"parallel_tool_calls":true,"prediction":null,
         "prompt_cache_key":"k","prompt_cache_retention":"in-memory","reasoning_effort":"none",
         "response_format":{"type":"text"},"safety_identifier":"s","service_tier":"auto",
         "store":false,"suffix":"","tool_choice":"none","tools":[],"user":"u",
         "verbosity":"medium","web_search_options":null,"temperature":null,"stop":null,
         "seed":null,"logit_bias":null,"no_such_field":[1,2],"stream":false)";
  const auto chat = ReadChatBody(
      ChatWith(common + R"(,"prompt":null,"logprobs":false,"add_generation_prompt":true)"), 64);
  EXPECT_TRUE(chat.ok()) << chat.status();
  const auto completion =
      ReadCompletionBody(CompletionWith(common + R"(,"messages":null,"max_completion_tokens":null,
          "chat_template_kwargs":{},"add_generation_prompt":true,"continue_final_message":false)"),
                         64);
  EXPECT_TRUE(completion.ok()) << completion.status();
  for (const char* null : {"metadata", "store", "tools", "response_format", "suffix", "best_of",
                           "parallel_tool_calls", "user", "n", "max_tokens"}) {
    const std::string member = std::string("\"") + null + "\":null";
    EXPECT_TRUE(ReadChatBody(ChatWith(member), 64).ok()) << null;
    EXPECT_TRUE(ReadCompletionBody(CompletionWith(member), 64).ok()) << null;
  }
}

TEST(JsonRequestTest, SeedsAndBiasKeysOfEveryIntegerAreRead) {
  for (const char* seed : {"9223372036854775807", "-9223372036854775808", "0"}) {
    const auto read = ReadCompletionBody(CompletionWith(std::string("\"seed\":") + seed), 64);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(std::to_string(*read->request.seed), seed);
  }
  const auto read = ReadCompletionBody(CompletionWith(R"("logit_bias":{"0":1,"50":-1})"), 64);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->request.logit_bias,
            (std::vector<std::pair<std::int64_t, double>>{{0, 1}, {50, -1}}));
}

TEST(JsonRequestTest, NumbersThatAreNoIntegersAreSaidToBeWhatTheyAre) {
  const struct {
    const char* value;
    const char* message;
  } rows[] = {
      {"9223372036854775808", "seed must be a 64-bit integer, not a larger one"},
      {"1e30", "seed must be a 64-bit integer, not a larger number"},
      {"123456789012345678901234567890", "seed must be a 64-bit integer, not a larger number"},
      {"1.5", "seed must be a 64-bit integer, not a number with a fraction or an exponent"},
      {"1e3", "seed must be a 64-bit integer, not a number with a fraction or an exponent"},
      {"true", "seed must be a 64-bit integer, not a boolean"},
  };
  for (const auto& row : rows) {
    const auto read = ReadCompletionBody(CompletionWith(std::string("\"seed\":") + row.value), 64);
    EXPECT_EQ(read.status().message(), row.message);
  }
}

TEST(JsonRequestTest, MessagesQuoteLittleOfWhatTheClientWrote) {
  const std::string huge(100000, 'x');
  const std::string bodies[] = {
      CompletionWith("\"" + huge + "\":1,\"" + huge + "\":1"),
      CompletionWith("\"logit_bias\":{\"" + huge + "\":1}"),
      CompletionWith("\"attention\":{\"" + huge + "\":1}"),
      CompletionWith("\"attention\":{\"decode\":{\"" + huge + "\":\"y\"}}"),
      CompletionWith("\"temperature\":" + huge),
      CompletionWith("\"temperature\":\"" + huge),
      CompletionWith("\"temperature\":1" + huge),
  };
  for (const std::string& body : bodies) {
    const auto read = ReadCompletionBody(body, 64);
    ASSERT_FALSE(read.ok());
    EXPECT_LT(read.status().message().size(), 250u) << read.status().message().substr(0, 300);
    EXPECT_LT(DescribeError(read.status()).param.size(), 120u);
  }
  const auto part =
      ReadChatBody(R"({"messages":[{"role":"user","content":[{"type":")" + huge + R"("}]}]})", 64);
  EXPECT_LT(part.status().message().size(), 250u);
}

TEST(JsonRequestTest, KeysWithSpacesAreWholeInTheParameter) {
  const auto read = ReadCompletionBody(CompletionWith(R"("attention":{"de code":1})"), 64);
  EXPECT_EQ(ParamOf(read.status()), "attention.de code");
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
