// The connection: limits, bad bytes, pipelining, and clients that go away.
#include <gtest/gtest.h>

#include <thread>

#include "tests/support/http_client.h"
#include "tests/unit/server/server_fixture.h"

namespace thresher {
namespace {

using testing::HttpClient;
using testing::HttpResponse;

constexpr char kLong[] = R"({"prompt":"abc","max_tokens":200,"ignore_eos":true,"stream":true})";
constexpr char kLongWhole[] = R"({"prompt":"abc","max_tokens":200,"ignore_eos":true})";

// Waits for what another thread is about to do; fails the test after ten seconds.
template <typename Condition>
void Eventually(const Condition& condition) {
  const absl::Time limit = absl::Now() + absl::Seconds(10);
  while (!condition()) {
    ASSERT_LT(absl::Now(), limit);
    std::this_thread::yield();
  }
}

void ExpectIdle(ServerFixture& server) {
  Eventually([&] { return server.engine->load().running == 0; });
  Eventually([&] { return server.engine->load().kv_usage == 0; });
}

TEST(HttpConnectionTest, BodiesOverTheLimitAre413) {
  ServerFixture server({.configure = [](v1::ServeConfig& c) { c.set_max_body_bytes(2000); }});
  const int port = server.StartHttp();
  HttpClient client(port);
  const HttpResponse reply =
      client.Post("/v1/completions", "{\"prompt\":\"" + std::string(3000, 'x') + "\"}");
  EXPECT_EQ(reply.status, 413);
  EXPECT_TRUE(client.ReadsEnd());
  HttpClient chunked(port);
  chunked.Send("POST /v1/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1000\r\n" +
               std::string(4096, ' ') + "\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.Read().status, 413);
  EXPECT_EQ(HttpClient(port).Get("/livez").status, 200);
}

TEST(HttpConnectionTest, BytesThatAreNoHttpAreRefused) {
  ServerFixture server;
  const int port = server.StartHttp();
  for (const std::string& bytes :
       {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), std::string("GET /livez\r\n\r\n"),
        std::string("nonsense\r\n\r\n")}) {
    HttpClient client(port);
    client.Send(bytes + std::string(64, '\n'));
    EXPECT_EQ(client.Read().status, 400) << bytes;
    EXPECT_TRUE(client.ReadsEnd());
  }
  HttpClient big(port);
  big.Send("GET /livez HTTP/1.1\r\nx: " + std::string(100000, 'x') + "\r\n\r\n");
  EXPECT_EQ(big.Read().status, 431);
  EXPECT_EQ(HttpClient(port).Get("/livez").status, 200);
}

TEST(HttpConnectionTest, PipelinedRequestsAreAnsweredInOrder) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  client.SendRequest("POST", "/v1/completions", R"({"prompt":"abc","stream":true})");
  client.SendRequest("GET", "/v1/models/other", "");
  client.SendRequest("GET", "/livez", "");
  EXPECT_EQ(client.Read().Events().back(), "[DONE]");
  EXPECT_EQ(client.Read().status, 404);
  EXPECT_EQ(client.Read().status, 200);
}

TEST(HttpConnectionTest, ContinueIsSentBeforeABodyThatWaitsForIt) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  const std::string body = R"({"prompt":"abc"})";
  client.Send("POST /v1/completions HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: " +
              std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_EQ(client.Read().status, 100);
  client.Send(body);
  EXPECT_EQ(client.Read().status, 200);
}

TEST(HttpConnectionTest, OldClientsGetAnUnchunkedStream) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  const std::string body = R"({"prompt":"abc","stream":true})";
  client.Send("POST /v1/completions HTTP/1.0\r\ncontent-length: " + std::to_string(body.size()) +
              "\r\n\r\n" + body);
  const HttpResponse reply = client.Read();
  EXPECT_EQ(reply.Header("transfer-encoding"), "");
  EXPECT_EQ(reply.Events().back(), "[DONE]");
}

TEST(HttpConnectionTest, AClientThatGoesEndsItsRequest) {
  for (const char* body : {kLong, kLongWhole}) {
    for (const bool reset : {false, true}) {
      ServerFixture server;
      server.runner->Hold();
      const int port = server.StartHttp();
      HttpClient client(port);
      client.SendRequest("POST", "/v1/completions", body);
      server.runner->AwaitHeldWait();
      server.runner->AllowSteps(5);
      server.runner->AwaitHeldWait();
      EXPECT_EQ(server.engine->load().running, 1);
      if (reset) {
        client.Reset();
      } else {
        client.Close();
      }
      // A step at a time, with a round trip through a worker and the I/O thread after each: far
      // fewer than the request's own 200 may run before it is cancelled.
      HttpClient other(port);
      for (int step = 0; step < 100 && server.engine->load().running > 0; ++step) {
        server.runner->AllowSteps(1);
        EXPECT_EQ(other.Post("/tokenize", R"({"prompt":"x"})").status, 200);
      }
      server.runner->Release();
      ExpectIdle(server);
      Eventually([&] {
        return server.metrics->Text().find("thresher_requests_total{outcome=\"aborted\"} 1\n") !=
               std::string::npos;
      });
    }
  }
}

TEST(HttpConnectionTest, AClientThatGoesWhileItsRequestIsQueuedEndsIt) {
  ServerFixture server({.max_running = 1});
  server.runner->Hold();
  const int port = server.StartHttp();
  HttpClient first(port);
  first.SendRequest("POST", "/v1/completions", kLong);
  server.runner->AwaitHeldWait();
  HttpClient second(port);
  second.SendRequest("POST", "/v1/completions", kLong);
  second.ReadUntil("\r\n\r\n");  // admitted: the stream has begun
  second.Close();
  server.runner->Release();
  EXPECT_EQ(first.Read().Events().back(), "[DONE]");
  ExpectIdle(server);
}

TEST(HttpConnectionTest, ConnectionsOverTheLimitAreRefused) {
  ServerFixture server({.configure = [](v1::ServeConfig& c) { c.set_max_connections(2); }});
  const int port = server.StartHttp();
  HttpClient first(port), second(port);
  EXPECT_EQ(first.Get("/livez").status, 200);
  EXPECT_EQ(second.Get("/livez").status, 200);
  EXPECT_EQ(HttpClient(port).Read().status, 503);
  first.Close();
  Eventually([&] {
    HttpClient client(port);
    return client.Get("/livez").status == 200;
  });
}

TEST(HttpConnectionTest, BodiesOfAllConnectionsTogetherAreBounded) {
  ServerFixture server({.configure = [](v1::ServeConfig& c) {
    c.set_max_body_bytes(1024);
    c.set_max_held_body_bytes(1500);
  }});
  const int port = server.StartHttp();
  const std::string half(800, ' ');
  HttpClient first(port);
  first.Send("POST /tokenize HTTP/1.1\r\ncontent-length: 1000\r\n\r\n" + half);
  Eventually([&] { return server.body_bytes->held() == 800; });
  // Neither a length that is announced nor one that shows only as it comes gets past the limit.
  HttpClient second(port);
  const HttpResponse refused = second.Post("/tokenize", half);
  EXPECT_EQ(refused.status, 429) << refused.body;
  EXPECT_FALSE(refused.Header("retry-after").empty());
  EXPECT_NE(refused.body.find("bytes of request bodies: its limit is 1500"), std::string::npos);
  EXPECT_TRUE(second.ReadsEnd());
  HttpClient chunked(port);
  chunked.Send("POST /v1/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n320\r\n" + half +
               "\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.Read().status, 429);
  EXPECT_NE(server.metrics->Text().find("thresher_requests_total{outcome=\"rejected\"} 1\n"),
            std::string::npos);
  first.Close();
  Eventually([&] { return server.body_bytes->held() == 0; });
  // A body is given back when it has been read, not when its answer has been written.
  server.runner->Hold();
  HttpClient running(port);
  running.SendRequest("POST", "/v1/completions", R"({"prompt":"abc","stream":true})");
  running.ReadUntil("\r\n\r\n");
  EXPECT_EQ(server.body_bytes->held(), 0);
  server.runner->Release();
  EXPECT_EQ(running.Read().Events().back(), "[DONE]");
}

TEST(HttpConnectionTest, ARequestThatThereIsNoMemoryForIs500AndTheServerLives) {
  ServerFixture server;
  HttpClient client(server.StartHttp());
  const std::string prompt = std::string("{\"prompt\":\"") + FakeTokenizer::kTooMuch + "\"}";
  for (const char* route : {"/v1/completions", "/tokenize"}) {
    const HttpResponse reply = client.Post(route, prompt);
    EXPECT_EQ(reply.status, 500) << reply.body;
    EXPECT_NE(reply.body.find("not enough memory"), std::string::npos);
  }
  EXPECT_EQ(client.Post("/v1/completions", R"({"prompt":"abc"})").status, 200);
}

TEST(HttpConnectionTest, NothingIsTokenisedWhileTheServerDrains) {
  ServerFixture server;
  const int port = server.StartHttp();
  server.state->SetDraining();
  for (const char* route : {"/tokenize", "/v1/completions"}) {
    const HttpResponse reply = HttpClient(port).Post(route, R"({"prompt":"abc"})");
    EXPECT_EQ(reply.status, 503) << route;
    EXPECT_FALSE(reply.Header("retry-after").empty());
  }
  EXPECT_EQ(HttpClient(port).Post("/detokenize", R"({"tokens":[97]})").status, 503);
}

TEST(HttpConnectionTest, AbsoluteTargetsAreTheirPaths) {
  ServerFixture server;
  const int port = server.StartHttp();
  const struct {
    const char* target;
    int status;
  } rows[] = {
      {"http://example.org:8000/livez", 200},
      {"HTTPS://example.org/livez?x=http://y/", 200},
      {"http://example.org/v1/models/fake", 200},
      {"http://example.org", 404},
      {"http://example.org?x", 404},
      {"http:/livez", 404},
      {"ftp://example.org/livez", 404},
  };
  for (const auto& row : rows) {
    HttpClient client(port);
    client.Send(std::string("GET ") + row.target + " HTTP/1.1\r\nhost: example.org\r\n\r\n");
    EXPECT_EQ(client.Read().status, row.status) << row.target;
  }
}

TEST(HttpConnectionTest, ShutdownLetsOpenAnswersFinish) {
  ServerFixture server;
  server.runner->Hold();
  const int port = server.StartHttp();
  HttpClient busy(port), idle(port);
  EXPECT_EQ(idle.Get("/livez").status, 200);
  busy.SendRequest("POST", "/v1/completions", R"({"prompt":"abc","stream":true})");
  server.runner->AwaitHeldWait();
  std::thread release([&] {
    EXPECT_TRUE(idle.ReadsEnd());  // the idle one is closed first
    server.runner->Release();
  });
  server.http->Shutdown(absl::Seconds(10));
  release.join();
  EXPECT_EQ(busy.Read().Events().back(), "[DONE]");
}

TEST(HttpConnectionTest, ShutdownCutsWhatDoesNotEnd) {
  ServerFixture server;
  server.runner->Hold();
  HttpClient client(server.StartHttp());
  client.SendRequest("POST", "/v1/completions", kLongWhole);
  server.runner->AwaitHeldWait();
  server.http->Shutdown(absl::ZeroDuration());
  EXPECT_EQ(client.Read().status, 0);
}

}  // namespace
}  // namespace thresher
