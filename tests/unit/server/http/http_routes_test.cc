// The routes that answer at once, and what every answer carries.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/http_client.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/server/server_fixture.h"

namespace thresher {
namespace {

using testing::HttpClient;
using testing::HttpResponse;
using Json = nlohmann::json;

Json Parse(const HttpResponse& response) {
  const Json body = Json::parse(response.body, nullptr, false);
  EXPECT_FALSE(body.is_discarded()) << response.body;
  return body;
}

void ExpectError(const HttpResponse& response, int status, const std::string& code) {
  EXPECT_EQ(response.status, status) << response.body;
  EXPECT_EQ(response.Header("content-type"), "application/json");
  EXPECT_FALSE(response.Header("x-request-id").empty());
  const Json error = Parse(response)["error"];
  for (const char* member : {"message", "type", "param", "code"}) {
    EXPECT_TRUE(error.contains(member)) << response.body;
  }
  if (!code.empty()) {
    EXPECT_EQ(error["code"], code);
  }
}

TEST(HttpRoutesTest, ModelsListTheServedOne) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  const Json list = Parse(client.Get("/v1/models"));
  EXPECT_EQ(list["object"], "list");
  EXPECT_EQ(list["data"][0]["id"], "fake");
  EXPECT_EQ(list["data"][0]["max_model_len"], 512);
  EXPECT_EQ(Parse(client.Get("/v1/models/fake"))["object"], "model");
  EXPECT_EQ(Parse(client.Get("/v1/models/f%61ke?x=1"))["id"], "fake");
  ExpectError(client.Get("/v1/models/other"), 404, "model_not_found");
}

TEST(HttpRoutesTest, PoliciesListWhatThisBuildHas) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  const Json body = Parse(client.Get("/v1/attention/policies"));
  EXPECT_EQ(body["policies"][0]["name"], "dense");
  EXPECT_EQ(body["levels"][0]["name"], "off");
  EXPECT_EQ(body["default_level"], "off");
  EXPECT_EQ(body["threshold_table"]["loaded"], false);
}

TEST(HttpRoutesTest, TokensGoBothWays) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  const Json tokens = Parse(
      client.Post("/tokenize", R"({"model":"fake","prompt":"abc","return_token_strs":true})"));
  EXPECT_EQ(tokens["count"], 3);
  EXPECT_EQ(tokens["tokens"], Json({97, 98, 99}));
  EXPECT_EQ(tokens["token_strs"], Json({"a", "b", "c"}));
  EXPECT_EQ(tokens["max_model_len"], 512);
  EXPECT_EQ(Parse(client.Post("/detokenize", R"({"tokens":[97,98]})"))["prompt"], "ab");
  EXPECT_GT(
      Parse(client.Post("/tokenize", R"({"messages":[{"role":"user","content":"x"}]})"))["count"],
      10);
  ExpectError(client.Post("/tokenize", R"({"model":"other","prompt":"x"})"), 404,
              "model_not_found");
  ExpectError(client.Post("/tokenize", R"({})"), 400, "");
  ExpectError(client.Post("/tokenize", R"({"prompt":7})"), 400, "");
  ExpectError(client.Post("/detokenize", R"({"tokens":[99999]})"), 400, "");
  ExpectError(client.Post("/detokenize", R"({"tokens":"x"})"), 400, "");
}

TEST(HttpRoutesTest, TextsToTokeniseHaveALimit) {
  ServerFixture server;  // 512 tokens of 64 bytes
  HttpClient client(server.StartHttp());
  const auto with = [](const char* field, std::size_t bytes) {
    return std::string("{\"") + field + "\":\"" + std::string(bytes, 'x') + "\"}";
  };
  EXPECT_EQ(Parse(client.Post("/tokenize", with("prompt", 32768)))["count"], 32768);
  const HttpResponse prompt = client.Post("/tokenize", with("prompt", 32769));
  ExpectError(prompt, 400, "context_length_exceeded");
  EXPECT_EQ(Parse(prompt)["error"]["param"], "prompt");
  EXPECT_NE(prompt.body.find("32769 bytes; at most 32768"), std::string::npos) << prompt.body;
  const std::string message =
      "{\"messages\":[{\"role\":\"user\",\"content\":\"" + std::string(32769, 'x') + "\"}]}";
  for (const char* route : {"/tokenize", "/v1/chat/completions"}) {
    const HttpResponse chat = client.Post(route, message);
    ExpectError(chat, 400, "context_length_exceeded");
    EXPECT_EQ(Parse(chat)["error"]["param"], "messages");
  }
  ExpectError(client.Post("/v1/completions", with("prompt", 32769)), 400,
              "context_length_exceeded");
}

TEST(HttpRoutesTest, TokenizeReadsAChatAsTheChatRouteDoes) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  for (const char* members : {R"("tools":[{}])", R"("chat_template":"x")",
                              R"("chat_template_kwargs":[])", R"("add_generation_prompt":1)",
                              R"("continue_final_message":true,"add_generation_prompt":true)"}) {
    const std::string body =
        std::string(R"({"messages":[{"role":"user","content":"x"}],)") + members + "}";
    const Json tokenize = Parse(client.Post("/tokenize", body))["error"];
    const Json chat = Parse(client.Post("/v1/chat/completions", body))["error"];
    EXPECT_EQ(tokenize["param"], chat["param"]) << members;
    EXPECT_EQ(tokenize["message"], chat["message"]) << members;
  }
}

TEST(HttpRoutesTest, ErrorsQuoteLittleOfWhatTheClientWrote) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  const std::string huge(20000, 'x');
  EXPECT_LT(client.Get("/" + huge).body.size(), 300u);
  EXPECT_LT(client.Get("/v1/models/" + huge).body.size(), 300u);
  EXPECT_LT(
      client.Post("/v1/completions", "{\"prompt\":\"a\",\"model\":\"" + huge + "\"}").body.size(),
      300u);
  EXPECT_LT(
      client.Post("/v1/completions", R"({"prompt":"a"})", "x-attention-level: " + huge + "\r\n")
          .body.size(),
      300u);
  EXPECT_LT(client
                .Post("/v1/completions",
                      "{\"prompt\":\"a\",\"attention\":{\"decode\":{\"policy\":\"" + huge + "\"}}}")
                .body.size(),
            300u);
  // Cut between code points.
  std::string smileys;
  for (int i = 0; i < 100; ++i) smileys += "\xF0\x9F\x98\x80";
  const Json error =
      Parse(client.Post("/v1/completions", "{\"prompt\":\"a\",\"model\":\"" + smileys + "\"}"));
  EXPECT_EQ(error["error"]["message"],
            "model '" + smileys.substr(0, 64) + "…' is not served here; 'fake' is");
}

TEST(HttpRoutesTest, HealthTellsLoadingFromReady) {
  ServerFixture server({.loaded = false});
  HttpClient client(server.StartHttp());
  EXPECT_EQ(client.Get("/livez").status, 200);
  EXPECT_EQ(client.Get("/readyz").status, 503);
  EXPECT_EQ(client.Get("/health").status, 503);
  EXPECT_EQ(client.Get("/metrics").status, 200);
  EXPECT_EQ(client.Get("/version").status, 200);
  const HttpResponse refused = client.Post("/v1/completions", R"({"prompt":"x"})");
  ExpectError(refused, 503, "unavailable");
  EXPECT_FALSE(refused.Header("retry-after").empty());
  ExpectError(client.Get("/v1/models"), 503, "unavailable");
  server.FinishLoading();
  EXPECT_EQ(client.Get("/readyz").status, 200);
  EXPECT_EQ(client.Get("/health").status, 200);
  server.state->SetDraining();
  HttpResponse draining = client.Get("/readyz");
  EXPECT_EQ(draining.status, 503);
  EXPECT_EQ(Parse(draining)["status"], "draining");
  EXPECT_EQ(draining.Header("connection"), "close");
}

TEST(HttpRoutesTest, UnknownRoutesAndMethods) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  ExpectError(client.Get("/nope"), 404, "");
  ExpectError(client.Get("//v1/models"), 404, "");
  ExpectError(client.Get("/v1/models%2"), 404, "");
  const HttpResponse wrong = client.Get("/v1/completions");
  ExpectError(wrong, 405, "method_not_allowed");
  EXPECT_EQ(wrong.Header("allow"), "POST, OPTIONS");
  client.SendRequest("HEAD", "/livez", "");
  const HttpResponse head = client.Read(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.Header("content-length"), "15");
  client.SendRequest("OPTIONS", "/v1/completions", "");
  EXPECT_EQ(client.Read().status, 204);
  EXPECT_EQ(client.Get("/livez").status, 200);
}

TEST(HttpRoutesTest, RequestIdsAreEchoedOrMade) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  EXPECT_EQ(client.Get("/livez", "x-request-id: abc-1\r\n").Header("x-request-id"), "abc-1");
  const std::string first = client.Get("/livez").Header("x-request-id");
  const std::string second = client.Get("/livez").Header("x-request-id");
  EXPECT_NE(first, second);
  EXPECT_EQ(
      client.Get("/livez", "x-request-id: a b\r\n").Header("x-request-id").compare(0, 4, "req-"),
      0);
}

TEST(HttpRoutesTest, KeysGuardTheApiButNotHealth) {
  const testing::TempFolder folder;
  ServerFixture server({.api_keys_path = folder.Write("keys", "k1\nk2\n")});
  HttpClient client(server.StartHttp());
  EXPECT_EQ(client.Get("/livez").status, 200);
  EXPECT_EQ(client.Get("/metrics").status, 200);
  const HttpResponse refused = client.Get("/v1/models");
  ExpectError(refused, 401, "invalid_api_key");
  EXPECT_EQ(refused.Header("www-authenticate"), "Bearer");
  EXPECT_EQ(refused.Header("x-should-retry"), "false");
  EXPECT_EQ(client.Get("/v1/models", "Authorization: Bearer k2\r\n").status, 200);
  // A browser asks before it shows its key.
  client.SendRequest("OPTIONS", "/v1/chat/completions", "", "Origin: http://x\r\n");
  EXPECT_EQ(client.Read().status, 204);
}

TEST(HttpRoutesTest, CorsHeadersAreSentWhenConfigured) {
  ServerFixture server({.configure = [](v1::ServeConfig& c) { c.set_cors_allow_origin("*"); }});
  HttpClient client(server.StartHttp());
  client.SendRequest("OPTIONS", "/v1/chat/completions", "", "Origin: http://x\r\n");
  const HttpResponse preflight = client.Read();
  EXPECT_EQ(preflight.Header("access-control-allow-origin"), "*");
  EXPECT_EQ(preflight.Header("access-control-allow-methods"), "POST, OPTIONS");
  EXPECT_EQ(client.Get("/v1/models").Header("access-control-allow-origin"), "*");
}

}  // namespace
}  // namespace thresher
