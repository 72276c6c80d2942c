#include "server/grpc/grpc_service.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <thread>

#include "tests/unit/server/server_fixture.h"
#include "thresher/v1/inference.grpc.pb.h"

namespace thresher {
namespace {

class GrpcServiceTest : public ::testing::Test {
 protected:
  void Start(const FixtureOptions& options = {}) {
    server_ = std::make_unique<ServerFixture>(options);
    absl::StatusOr<std::unique_ptr<GrpcFrontend>> started = GrpcFrontend::Start(*server_->context);
    ASSERT_TRUE(started.ok()) << started.status();
    frontend_ = *std::move(started);
    stub_ = v1::InferenceService::NewStub(grpc::CreateChannel(
        "127.0.0.1:" + std::to_string(frontend_->port()), grpc::InsecureChannelCredentials()));
  }

  void TearDown() override {
    if (server_ != nullptr) server_->runner->Release();
    if (frontend_ != nullptr) frontend_->Shutdown(absl::ZeroDuration());
  }

  struct Result {
    grpc::Status status;
    std::string text;
    v1::GenerateStarted started;
    v1::GenerateChunk last;
    v1::Usage usage;
    int num_chunks = 0;
  };

  Result Generate(const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    return Generate(request, context);
  }

  Result Generate(const v1::GenerateRequest& request, grpc::ClientContext& context) {
    Result result;
    const auto reader = stub_->Generate(&context, request);
    v1::GenerateResponse response;
    while (reader->Read(&response)) {
      if (response.has_started()) result.started = response.started();
      if (response.has_usage()) result.usage = response.usage();
      if (!response.has_chunk()) continue;
      result.text += response.chunk().text();
      result.last = response.chunk();
      ++result.num_chunks;
    }
    result.status = reader->Finish();
    return result;
  }

  static v1::GenerateRequest Text(const std::string& text) {
    v1::GenerateRequest request;
    request.set_text(text);
    return request;
  }

  std::unique_ptr<ServerFixture> server_;
  std::unique_ptr<GrpcFrontend> frontend_;
  std::unique_ptr<v1::InferenceService::Stub> stub_;
};

TEST_F(GrpcServiceTest, StreamsAGeneration) {
  Start();
  v1::GenerateRequest request = Text("abc");
  request.mutable_output()->set_return_token_ids(true);
  request.mutable_output()->set_logprobs(1);
  const Result result = Generate(request);
  ASSERT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(result.text, "Hello, world.");
  EXPECT_EQ(result.started.prompt_tokens(), 3);
  EXPECT_EQ(result.started.prompt_token_ids_size(), 3);
  EXPECT_EQ(result.last.finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(result.usage.completion_tokens(), 14);
  EXPECT_EQ(result.usage.attention_details().decode_policy(), "dense");
}

TEST_F(GrpcServiceTest, TakesTokensAndStopStrings) {
  Start();
  v1::GenerateRequest request;
  request.mutable_token_ids()->add_ids('a');
  request.mutable_stopping()->add_stop(", ");
  const Result result = Generate(request);
  ASSERT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(result.text, "Hello");
  EXPECT_EQ(result.last.stop_string(), ", ");
}

TEST_F(GrpcServiceTest, ErrorsHaveTheirCodes) {
  Start();
  EXPECT_EQ(Generate(v1::GenerateRequest()).status.error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  v1::GenerateRequest request = Text("x");
  request.mutable_sampling()->set_temperature(std::numeric_limits<double>::quiet_NaN());
  const grpc::Status nan = Generate(request).status;
  EXPECT_EQ(nan.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(nan.error_details(), "temperature");
  request = Text("x");
  request.set_model("other");
  EXPECT_EQ(Generate(request).status.error_code(), grpc::StatusCode::NOT_FOUND);
  request = Text("x");
  request.mutable_attention()->mutable_decode()->mutable_top_theta()->set_k(256);
  EXPECT_EQ(Generate(request).status.error_details(), "attention.decode.policy");
  server_->state->SetDraining();
  EXPECT_EQ(Generate(Text("x")).status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(GrpcServiceTest, TheDeadlineAndTheCallersCancelEndTheRequest) {
  Start();
  server_->runner->Hold();
  v1::GenerateRequest request = Text("abc");
  request.set_max_tokens(300);
  request.mutable_stopping()->set_ignore_eos(true);
  grpc::ClientContext late;
  late.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  EXPECT_EQ(Generate(request, late).status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  grpc::ClientContext cancelled;
  std::thread cancel([&] {
    server_->runner->AwaitHeldWait();
    cancelled.TryCancel();
  });
  EXPECT_EQ(Generate(request, cancelled).status.error_code(), grpc::StatusCode::CANCELLED);
  cancel.join();
  server_->runner->Release();
  const absl::Time limit = absl::Now() + absl::Seconds(10);
  while (server_->engine->load().running + server_->engine->load().waiting > 0) {
    ASSERT_LT(absl::Now(), limit);
    std::this_thread::yield();
  }
  EXPECT_EQ(Generate(Text("abc")).text, "Hello, world.");
}

TEST_F(GrpcServiceTest, CallsOverTheLimitAreRefused) {
  Start({.configure = [](v1::ServeConfig& c) { c.set_max_grpc_calls(1); }});
  server_->runner->Hold();
  Result first;
  std::thread running([&] { first = Generate(Text("abc")); });
  server_->runner->AwaitHeldWait();
  const grpc::Status refused = Generate(Text("abc")).status;
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.error_message(),
            "the server has no room for more open gRPC calls: its limit is 1");
  grpc::ClientContext context;
  v1::TokenizeRequest tokenize;
  v1::TokenizeResponse tokens;
  EXPECT_EQ(stub_->Tokenize(&context, tokenize, &tokens).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(server_->metrics->Text().find("thresher_requests_total{outcome=\"rejected\"} 1\n"),
            std::string::npos);
  server_->runner->Release();
  running.join();
  EXPECT_EQ(first.text, "Hello, world.");
  // Its place is given back a moment after the client has heard the end.
  const absl::Time limit = absl::Now() + absl::Seconds(10);
  while (!Generate(Text("abc")).status.ok()) ASSERT_LT(absl::Now(), limit);
}

TEST_F(GrpcServiceTest, MessagesOfAllCallsTogetherAreBounded) {
  Start({.configure = [](v1::ServeConfig& c) {
    c.set_max_body_bytes(2048);
    c.set_max_held_body_bytes(2048);
  }});
  server_->runner->Hold();
  Result first;
  const std::string half(400, 'x');
  std::thread running([&] { first = Generate(Text(half)); });
  server_->runner->AwaitHeldWait();
  EXPECT_GE(server_->body_bytes->held(), 400);
  grpc::ClientContext context;
  v1::TokenizeRequest tokenize;
  tokenize.set_text(std::string(1700, 'x'));
  v1::TokenizeResponse tokens;
  const grpc::Status refused = stub_->Tokenize(&context, tokenize, &tokens);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(refused.error_message().find("bytes of request bodies"), std::string::npos);
  server_->runner->Release();
  running.join();
  EXPECT_EQ(first.text, "Hello, world.");
  const absl::Time limit = absl::Now() + absl::Seconds(10);
  while (server_->body_bytes->held() > 0) ASSERT_LT(absl::Now(), limit);
}

TEST_F(GrpcServiceTest, ACallThatThereIsNoMemoryForIsInternal) {
  Start();
  EXPECT_EQ(Generate(Text(FakeTokenizer::kTooMuch)).status.error_code(),
            grpc::StatusCode::INTERNAL);
  grpc::ClientContext context;
  v1::TokenizeRequest tokenize;
  tokenize.set_text(FakeTokenizer::kTooMuch);
  v1::TokenizeResponse tokens;
  EXPECT_EQ(stub_->Tokenize(&context, tokenize, &tokens).error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(Generate(Text("abc")).text, "Hello, world.");
}

TEST_F(GrpcServiceTest, TextsToTokeniseHaveTheLimitOfTheOtherWire) {
  Start();
  const std::string huge(32769, 'x');
  EXPECT_EQ(Generate(Text(huge)).status.error_details(), "prompt");
  grpc::ClientContext context;
  v1::TokenizeRequest tokenize;
  tokenize.set_text(huge);
  v1::TokenizeResponse tokens;
  const grpc::Status refused = stub_->Tokenize(&context, tokenize, &tokens);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refused.error_details(), "text");
  EXPECT_NE(refused.error_message().find("at most 32768"), std::string::npos);
}

TEST_F(GrpcServiceTest, BiasesSeedsAndPrioritiesHaveTheRulesOfTheOtherWire) {
  Start();
  v1::GenerateRequest request = Text("x");
  for (int id = 0; id < 1000; ++id) (*request.mutable_sampling()->mutable_logit_bias())[id] = 1;
  request.mutable_sampling()->set_seed(std::numeric_limits<std::int64_t>::min());
  request.set_priority(1000);
  EXPECT_TRUE(Generate(request).status.ok());
  for (int id = 1000; id < 1025; ++id) (*request.mutable_sampling()->mutable_logit_bias())[id] = 1;
  const grpc::Status many = Generate(request).status;
  EXPECT_EQ(many.error_details(), "logit_bias");
  EXPECT_NE(many.error_message().find("1025 entries; at most 1024"), std::string::npos);
  request = Text("x");
  request.set_priority(1001);
  EXPECT_EQ(Generate(request).status.error_details(), "priority");
}

TEST_F(GrpcServiceTest, ErrorsQuoteLittleOfWhatTheClientWrote) {
  Start();
  v1::GenerateRequest request = Text("x");
  request.set_model(std::string(100000, 'x'));
  EXPECT_LT(Generate(request).status.error_message().size(), 200u);
  v1::AbortRequest abort;
  abort.set_request_id(std::string(100000, 'x'));
  v1::AbortResponse response;
  grpc::ClientContext context;
  EXPECT_LT(stub_->Abort(&context, abort, &response).error_message().size(), 200u);
}

TEST_F(GrpcServiceTest, ATakenPortIsNamed) {
  Start();
  ServerFixture second(
      {.configure = [this](v1::ServeConfig& c) { c.set_grpc_port(frontend_->port()); }});
  const auto started = GrpcFrontend::Start(*second.context);
  EXPECT_EQ(started.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(started.status().message().find(std::to_string(frontend_->port()) +
                                            " for gRPC: Address already in use"),
            std::string::npos)
      << started.status();
}

TEST_F(GrpcServiceTest, AbortEndsTheRequestOfThatId) {
  Start();
  server_->runner->Hold();
  v1::GenerateRequest request = Text("abc");
  request.set_request_id("mine");
  Result result;
  std::thread generate([&] { result = Generate(request); });
  server_->runner->AwaitHeldWait();
  v1::AbortRequest abort;
  v1::AbortResponse response;
  abort.set_request_id("mine");
  grpc::ClientContext first;
  EXPECT_TRUE(stub_->Abort(&first, abort, &response).ok());
  server_->runner->Release();
  generate.join();
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::CANCELLED);
  abort.set_request_id("other");
  grpc::ClientContext second;
  EXPECT_EQ(stub_->Abort(&second, abort, &response).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcServiceTest, UnaryCallsAnswer) {
  Start();
  {
    v1::TokenizeRequest request;
    v1::TokenizeResponse response;
    request.set_text("ab");
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->Tokenize(&context, request, &response).ok());
    EXPECT_EQ(response.token_ids_size(), 2);
    EXPECT_EQ(response.tokens(1), "b");
  }
  {
    v1::DetokenizeRequest request;
    v1::DetokenizeResponse response;
    request.add_token_ids('a');
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->Detokenize(&context, request, &response).ok());
    EXPECT_EQ(response.text(), "a");
    request.add_token_ids(5000);
    grpc::ClientContext again;
    EXPECT_EQ(stub_->Detokenize(&again, request, &response).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
  {
    v1::ListModelsResponse response;
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->ListModels(&context, {}, &response).ok());
    EXPECT_EQ(response.models(0).id(), "fake");
    EXPECT_EQ(response.models(0).max_model_len(), 512);
  }
  {
    v1::ListAttentionPoliciesResponse response;
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->ListAttentionPolicies(&context, {}, &response).ok());
    EXPECT_EQ(response.policies(0).name(), "dense");
    EXPECT_EQ(response.levels(0).name(), "off");
  }
  {
    v1::GetLoadResponse response;
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->GetLoad(&context, {}, &response).ok());
    EXPECT_EQ(response.running(), 0);
  }
}

}  // namespace
}  // namespace thresher
