// A server over the fake runner, for tests of both front ends: what it says is a fixed text.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/engine_parts.h"
#include "server/config/defaults.h"
#include "server/http/http_frontend.h"
#include "server/server_context.h"
#include "tests/support/fakes/fake_model_runner.h"
#include "tests/support/fakes/fake_tokenizer.h"

namespace thresher {

// Renders "<role>content" lines, refuses two equal roles in a row as Mistral's template does.
class LineTemplate final : public ChatTemplate {
 public:
  absl::StatusOr<std::string> Render(const ChatTemplateInput& input) const override {
    if (input.messages.find("refuse me") != std::string::npos) {
      return absl::InvalidArgumentError("Conversation roles must alternate");
    }
    return input.messages + (input.add_generation_prompt ? ">" : "");
  }
};

struct FixtureOptions {
  std::string reply = "Hello, world.";  // a token a byte; then the end token
  std::function<void(v1::ServeConfig&)> configure = [](v1::ServeConfig&) {};
  int num_blocks = 64;
  int max_queued_requests = 1024;
  int max_running = 8;
  int max_model_len = 512;
  bool loaded = true;
  bool strips_leading_space = false;  // the tokenizer's own space, as SentencePiece's
  std::string api_keys_path = "";
  std::optional<std::int64_t> fail_at_step = std::nullopt;
};

class ServerFixture {
 public:
  static constexpr TokenId kEnd = 999;

  explicit ServerFixture(const FixtureOptions& options = {}) {
    v1::ServeConfig flags = DefaultServeConfig();
    flags.set_model("/models/fake.gguf");
    flags.set_http_port(0);
    flags.set_grpc_port(0);
    flags.set_api_keys(options.api_keys_path);
    options.configure(flags);
    absl::StatusOr<ServerConfig> parsed = ServerConfigFrom(flags);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    config = *std::move(parsed);
    absl::StatusOr<std::unique_ptr<ApiKeys>> opened = ApiKeys::Open(config.api_keys_path, {"off"});
    EXPECT_TRUE(opened.ok()) << opened.status();
    keys = *std::move(opened);
    state = std::make_unique<ServingState>(config.stall);
    metrics = std::make_unique<MetricsRegistry>(MetricsOptions{});
    workers = std::make_unique<TaskQueue>(2);
    body_bytes = std::make_unique<Quota>("bytes of request bodies", config.max_held_body_bytes);
    context.reset(new ServerContext{config, *state, *metrics, *keys, *workers, *body_bytes});
    MakeEngine(options);
    if (options.loaded) FinishLoading();
  }

  ~ServerFixture() {
    runner->Release();
    if (http != nullptr) http->Shutdown(absl::ZeroDuration());
    workers->Stop();
  }

  void FinishLoading() {
    model = std::make_unique<ServedModel>(*engine, config, 1700000000);
    state->SetModel(*model);
  }

  int StartHttp() {
    absl::StatusOr<std::unique_ptr<HttpFrontend>> started = HttpFrontend::Start(*context);
    EXPECT_TRUE(started.ok()) << started.status();
    http = *std::move(started);
    return http->port();
  }

  ServerConfig config;
  std::unique_ptr<MetricsRegistry> metrics;
  FakeModelRunner* runner = nullptr;  // owned by the engine
  std::unique_ptr<Engine> engine;
  std::unique_ptr<ApiKeys> keys;
  std::unique_ptr<ServingState> state;
  std::unique_ptr<TaskQueue> workers;
  std::unique_ptr<Quota> body_bytes;
  std::unique_ptr<ServerContext> context;
  std::unique_ptr<ServedModel> model;
  std::unique_ptr<HttpFrontend> http;

 private:
  void MakeEngine(const FixtureOptions& options) {
    FakeModelRunnerOptions runner_options;
    runner_options.num_blocks = options.num_blocks;
    runner_options.failing_step = options.fail_at_step;
    runner_options.draw = [reply = options.reply](const SequenceStart& sequence, int position,
                                                  TokenId) {
      const int index = position - static_cast<int>(sequence.request->prompt.size());
      if (index < 0) return TokenId{'p'};
      if (index >= static_cast<int>(reply.size())) return kEnd;
      return static_cast<TokenId>(static_cast<unsigned char>(reply[index]));
    };
    EngineParts parts;
    auto fake = std::make_unique<FakeModelRunner>(runner_options);
    runner = fake.get();
    parts.runner = std::move(fake);
    parts.tokenizer =
        std::make_unique<FakeTokenizer>(runner_options.vocab_size, options.strips_leading_space);
    parts.chat_template = std::make_unique<LineTemplate>();
    parts.model_config.family = "fake";
    parts.model_config.vocab_size = runner_options.vocab_size;
    parts.generation_defaults.end_tokens = {kEnd};
    parts.max_model_len = options.max_model_len;
    parts.scheduler.num_blocks = options.num_blocks;
    parts.scheduler.max_running = options.max_running;
    parts.scheduler.max_queued_requests = options.max_queued_requests;
    absl::StatusOr<std::unique_ptr<Engine>> created = CreateEngine(std::move(parts), metrics.get());
    EXPECT_TRUE(created.ok()) << created.status();
    engine = *std::move(created);
  }
};

}  // namespace thresher
