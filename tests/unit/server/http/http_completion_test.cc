// Completions and chats as clients see them, whole and streamed.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/http_client.h"
#include "tests/unit/server/server_fixture.h"

namespace thresher {
namespace {

using testing::HttpClient;
using testing::HttpResponse;
using Json = nlohmann::json;

// All events but the last, which must be the end mark.
std::vector<Json> Chunks(const HttpResponse& response) {
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.Header("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(response.Header("cache-control"), "no-cache");
  std::vector<std::string> events = response.Events();
  std::vector<Json> chunks;
  if (events.empty()) return chunks;
  EXPECT_EQ(events.back(), "[DONE]");
  events.pop_back();
  for (const std::string& event : events) {
    chunks.push_back(Json::parse(event, nullptr, false));
    EXPECT_FALSE(chunks.back().is_discarded()) << event;
  }
  EXPECT_EQ(response.body.find("\nid:"), std::string::npos);
  return chunks;
}

TEST(HttpCompletionTest, AnswersACompletion) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  const HttpResponse reply =
      client.Post("/v1/completions", R"({"model":"fake","prompt":"abc","max_tokens":50})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.Header("content-type"), "application/json");
  const Json body = Json::parse(reply.body);
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(body["model"], "fake");
  EXPECT_EQ(body["id"].get<std::string>().compare(0, 5, "cmpl-"), 0);
  EXPECT_EQ(body["choices"][0]["text"], "Hello, world.");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(body["choices"][0]["logprobs"].is_null());
  EXPECT_TRUE(body["choices"][0]["stop_reason"].is_null());
  EXPECT_EQ(body["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(body["usage"]["completion_tokens"], 14);
  EXPECT_EQ(body["usage"]["total_tokens"], 17);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(body["usage"]["attention_details"]["decode_policy"], "dense");
}

TEST(HttpCompletionTest, AnswersAChat) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  const HttpResponse reply = client.Post(
      "/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":5})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Json body = Json::parse(reply.body);
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "Hello");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
}

TEST(HttpCompletionTest, StreamsAChat) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  const std::vector<Json> chunks = Chunks(client.Post(
      "/v1/chat/completions",
      R"({"messages":[{"role":"user","content":"hi"}],"n":3,"stream":true,"max_tokens":4})"));
  std::string texts[3];
  int roles[3] = {}, finishes[3] = {};
  for (const Json& chunk : chunks) {
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    EXPECT_EQ(chunk["id"], chunks[0]["id"]);
    EXPECT_EQ(chunk["created"], chunks[0]["created"]);
    EXPECT_FALSE(chunk.contains("usage"));
    const Json& choice = chunk["choices"][0];
    const int index = choice["index"];
    if (choice["delta"].contains("role")) {
      ++roles[index];
      EXPECT_EQ(texts[index], "");
      EXPECT_EQ(choice["delta"]["content"], "");
    }
    texts[index] += choice["delta"].value("content", "");
    EXPECT_EQ(finishes[index], 0);
    finishes[index] += !choice["finish_reason"].is_null();
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(texts[i], "Hell");
    EXPECT_EQ(roles[i], 1);
    EXPECT_EQ(finishes[i], 1);
  }
}

TEST(HttpCompletionTest, UsageComesInAChunkOfItsOwnWhenAsked) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  const std::vector<Json> chunks = Chunks(client.Post(
      "/v1/completions",
      R"({"prompt":"abc","stream":true,"max_tokens":3,"stream_options":{"include_usage":true}})"));
  ASSERT_GE(chunks.size(), 2u);
  for (std::size_t i = 0; i + 1 < chunks.size(); ++i) {
    EXPECT_TRUE(chunks[i]["usage"].is_null());
    EXPECT_EQ(chunks[i]["choices"].size(), 1u);
  }
  EXPECT_TRUE(chunks.back()["choices"].empty());
  EXPECT_EQ(chunks.back()["usage"]["completion_tokens"], 3);

  const std::vector<Json> continuous =
      Chunks(client.Post("/v1/completions", R"({"prompt":"abc","stream":true,"max_tokens":3,
                             "stream_options":{"continuous_usage_stats":true}})"));
  for (const Json& chunk : continuous) EXPECT_EQ(chunk["usage"]["prompt_tokens"], 3);
}

TEST(HttpCompletionTest, StopStringsNeverLeak) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  std::string text;
  Json last;
  for (const Json& chunk : Chunks(client.Post(
           "/v1/completions", R"({"prompt":"abc","stream":true,"stop":"o, w","max_tokens":50})"))) {
    text += chunk["choices"][0]["text"].get<std::string>();
    last = chunk["choices"][0];
  }
  EXPECT_EQ(text, "Hell");
  EXPECT_EQ(last["finish_reason"], "stop");
  EXPECT_EQ(last["stop_reason"], "o, w");
}

TEST(HttpCompletionTest, CompletionLogprobsHaveTheirFourLists) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  const Json body = Json::parse(
      client.Post("/v1/completions", R"({"prompt":"abc","echo":true,"logprobs":2,"max_tokens":2})")
          .body);
  EXPECT_EQ(body["choices"][0]["text"], "abcHe");
  const Json& logprobs = body["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json({"a", "b", "c", "H", "e"}));
  EXPECT_EQ(logprobs["text_offset"], Json({0, 1, 2, 3, 4}));
  ASSERT_EQ(logprobs["token_logprobs"].size(), 5u);
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  EXPECT_EQ(logprobs["token_logprobs"][3], -0.5);
  EXPECT_EQ(logprobs["top_logprobs"][3], Json({{"H", -0.5}, {"I", -1.5}}));
}

TEST(HttpCompletionTest, EchoAloneScoresNothing) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  const Json body = Json::parse(
      client.Post("/v1/completions", R"({"prompt":"abc","echo":true,"max_tokens":0})").body);
  EXPECT_EQ(body["choices"][0]["text"], "abc");
  EXPECT_EQ(body["usage"]["completion_tokens"], 0);
  EXPECT_TRUE(body["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
}

TEST(HttpCompletionTest, ChatLogprobsHaveBytesAndExactlyTheAlternativesAsked) {
  ServerFixture server({.reply = "\xF0\x9F\x98\x80"});
  HttpClient client(server.StartHttp());
  for (const int top : {0, 1, 20}) {
    const Json body = Json::parse(
        client
            .Post("/v1/chat/completions",
                  R"({"messages":[{"role":"user","content":"x"}],"logprobs":true,"top_logprobs":)" +
                      std::to_string(top) + "}")
            .body);
    const Json& content = body["choices"][0]["logprobs"]["content"];
    ASSERT_EQ(content.size(), 4u) << body;
    EXPECT_EQ(content[0]["bytes"], Json({0xF0}));
    EXPECT_EQ(content[0]["token"], "bytes:\\xf0");
    EXPECT_EQ(content[0]["logprob"], -0.5);
    EXPECT_EQ(content[0]["top_logprobs"].size(), static_cast<std::size_t>(top));
  }
}

TEST(HttpCompletionTest, TokenIdsAndPromptLogprobsAreReturnedWhenAsked) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  const Json body = Json::parse(
      client
          .Post("/v1/completions",
                R"({"prompt":"abc","max_tokens":2,"return_token_ids":true,"prompt_logprobs":1})")
          .body);
  const Json& choice = body["choices"][0];
  EXPECT_EQ(choice["token_ids"], Json({'H', 'e'}));
  EXPECT_EQ(choice["prompt_token_ids"], Json({'a', 'b', 'c'}));
  ASSERT_EQ(choice["prompt_logprobs"].size(), 3u);
  EXPECT_TRUE(choice["prompt_logprobs"][0].is_null());
  EXPECT_TRUE(choice["prompt_logprobs"][1].is_object());
}

TEST(HttpCompletionTest, EverythingThatCanFailFailsBeforeTheStream) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  for (const char* body : {R"({"prompt":"x","stream":true,"temperature":-1})",
                           R"({"prompt":"x","stream":true,"model":"other"})",
                           R"({"prompt":"x","stream":true,"attention":"extreme"})", "{", "[1]",
                           R"({"prompt":[999999],"stream":true})"}) {
    const HttpResponse reply = client.Post("/v1/completions", body);
    EXPECT_GE(reply.status, 400) << body;
    EXPECT_LT(reply.status, 500) << body;
    EXPECT_EQ(reply.Header("content-type"), "application/json");
    EXPECT_EQ(reply.Header("x-should-retry"), "false");
    EXPECT_TRUE(Json::parse(reply.body)["error"]["message"].is_string());
  }
  EXPECT_EQ(client.Post("/v1/completions", R"({"prompt":"x","max_tokens":1})").status, 200);
}

TEST(HttpCompletionTest, TheHeaderSetsTheLevel) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  EXPECT_EQ(
      client.Post("/v1/completions", R"({"prompt":"x"})", "x-attention-level: off\r\n").status,
      200);
  const HttpResponse reply =
      client.Post("/v1/completions", R"({"prompt":"x"})", "x-attention-level: extreme\r\n");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(Json::parse(reply.body)["error"]["param"], "x-attention-level");
  EXPECT_EQ(client
                .Post("/v1/completions", R"({"prompt":"x","attention":"off"})",
                      "x-attention-level: extreme\r\n")
                .status,
            200);
}

TEST(HttpCompletionTest, ALevelThatNeedsATableSaysWhatToDo) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  const HttpResponse level =
      client.Post("/v1/completions", R"({"prompt":"x","attention":"balanced"})");
  EXPECT_EQ(level.status, 400);
  EXPECT_NE(level.body.find("thresher calibrate"), std::string::npos) << level.body;
  const HttpResponse policy = client.Post(
      "/v1/completions", R"({"prompt":"x","attention":{"decode":{"policy":"top_theta","k":256}}})");
  EXPECT_EQ(policy.status, 400);
  EXPECT_EQ(Json::parse(policy.body)["error"]["param"], "attention.decode.policy");
  EXPECT_NE(policy.body.find("thresher calibrate"), std::string::npos) << policy.body;
}

TEST(HttpCompletionTest, UsageEchoesWhatAttentionRead) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  const Json body = Json::parse(client.Post("/v1/completions", R"({"prompt":"x"})").body);
  const Json& details = body["usage"]["attention_details"];
  EXPECT_EQ(details["prefill_policy"], "dense");
  EXPECT_EQ(details["decode_policy"], "dense");
  EXPECT_FALSE(details.contains("k"));
  for (const char* name : {"v_rows_total", "v_rows_read", "k_rows_read", "kv_bytes_read",
                           "kv_bytes_dense", "blocks_selected", "blocks_total"}) {
    EXPECT_TRUE(details[name].is_number_integer()) << name;
  }
  EXPECT_TRUE(details["dense_fallbacks"].is_object());
}

TEST(HttpCompletionTest, UsageIsThereWhenAStopStringEndsTheText) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  const Json body = Json::parse(
      client
          .Post("/v1/completions",
                R"({"prompt":"abc","stop":"o, w","attention":{"prefill":{"policy":"streaming"}}})")
          .body);
  EXPECT_EQ(body["choices"][0]["text"], "Hell");
  EXPECT_EQ(body["usage"]["attention_details"]["prefill_policy"], "streaming");
}

TEST(HttpCompletionTest, AFullQueueIs429) {
  ServerFixture server({.max_queued_requests = 1, .max_running = 1});
  server.runner->Hold();
  const int port = server.StartHttp();
  const std::string body = R"({"prompt":"abc","max_tokens":5})";
  HttpClient running(port), waiting(port), refused(port);
  running.SendRequest("POST", "/v1/completions", body);
  server.runner->AwaitHeldWait();
  waiting.SendRequest("POST", "/v1/completions", R"({"prompt":"abc","stream":true})");
  waiting.ReadUntil("\r\n\r\n");
  const HttpResponse reply = refused.Post("/v1/completions", body);
  EXPECT_EQ(reply.status, 429) << reply.body;
  EXPECT_FALSE(reply.Header("retry-after").empty());
  EXPECT_EQ(reply.Header("x-should-retry"), "");
  server.runner->Release();
  EXPECT_EQ(running.Read().status, 200);
  EXPECT_EQ(waiting.Read().Events().back(), "[DONE]");
}

TEST(HttpCompletionTest, SilentStreamsGetHeartbeats) {
  ServerFixture server({.configure = [](v1::ServeConfig& c) { c.set_heartbeat_seconds(1); }});
  server.runner->Hold();
  HttpClient client(server.StartHttp());
  client.SendRequest("POST", "/v1/completions", R"({"prompt":"abc","stream":true})");
  EXPECT_NE(client.ReadUntil(": ping\n\n").find(": ping\n\n"), std::string::npos);
  server.runner->Release();
  EXPECT_EQ(client.Read().Events().back(), "[DONE]");
}

TEST(HttpCompletionTest, AFailedEngineIsAnErrorEventThen503) {
  ServerFixture server({.fail_at_step = 3});
  HttpClient client(server.StartHttp());
  const std::vector<std::string> events =
      client.Post("/v1/completions", R"({"prompt":"abc","stream":true})").Events();
  ASSERT_GE(events.size(), 2u);
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_TRUE(Json::parse(events[events.size() - 2]).contains("error"));
  EXPECT_EQ(client.Get("/readyz").status, 503);
  EXPECT_EQ(client.Get("/livez").status, 503);
  EXPECT_EQ(client.Post("/v1/completions", R"({"prompt":"abc"})").status, 503);
}

}  // namespace
}  // namespace thresher
