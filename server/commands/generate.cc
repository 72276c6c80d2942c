// `thresher generate`: one completion on the terminal, in this process or from a running server.
#include <grpcpp/grpcpp.h>

#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "server/commands/command_line.h"
#include "server/commands/commands.h"
#include "server/config/defaults.h"
#include "server/config/server_config.h"
#include "server/http/json_request.h"
#include "server/http/json_text.h"
#include "server/requests/completion_stream.h"
#include "thresher/v1/inference.grpc.pb.h"

namespace thresher {
namespace {

constexpr char kUsage[] =
    "usage: thresher generate --model PATH --prompt TEXT [flags]\n"
    "       thresher generate --server HOST:PORT --prompt TEXT [flags]\n"
    "Prints a completion as it is generated, and its speed on stderr.\n";

// Times the tokens after the first, as a decode rate.
class Pace final {
 public:
  void Token() {
    last_ = absl::Now();
    if (first_ == absl::InfinitePast()) first_ = last_;
  }
  void Print(int prompt_tokens, int completion_tokens) const {
    const double seconds = absl::ToDoubleSeconds(last_ - first_);
    std::cerr << absl::StrFormat(
        "%d prompt tokens, %d generated; first after %.0f ms, then %.1f tokens/s\n", prompt_tokens,
        completion_tokens, absl::ToDoubleMilliseconds(first_ - start_),
        seconds > 0 ? (completion_tokens - 1) / seconds : 0.0);
  }

 private:
  const absl::Time start_ = absl::Now();
  absl::Time first_ = absl::InfinitePast();
  absl::Time last_ = absl::InfinitePast();
};

absl::Status GenerateFromServer(const v1::GenerateConfig& flags, const AttentionWish& attention) {
  if (flags.chat()) {
    return absl::InvalidArgumentError("--chat needs --model: the gRPC API takes plain prompts");
  }
  v1::GenerateRequest request;
  request.set_text(flags.prompt());
  request.set_max_tokens(flags.max_tokens());
  request.mutable_sampling()->set_temperature(flags.temperature());
  if (flags.seed() != 0) request.mutable_sampling()->set_seed(flags.seed());
  if (absl::Status status = WishToProto(attention, *request.mutable_attention()); !status.ok()) {
    return status;
  }
  const auto stub = v1::InferenceService::NewStub(
      grpc::CreateChannel(flags.server(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  if (!flags.api_key().empty()) context.AddMetadata("authorization", "Bearer " + flags.api_key());
  Pace pace;
  const auto reader = stub->Generate(&context, request);
  v1::GenerateResponse response;
  v1::Usage usage;
  while (reader->Read(&response)) {
    if (response.has_chunk()) {
      pace.Token();
      std::cout << response.chunk().text() << std::flush;
    }
    if (response.has_usage()) usage = response.usage();
  }
  std::cout << std::endl;
  const grpc::Status status = reader->Finish();
  if (!status.ok()) {
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }
  if (!flags.quiet()) pace.Print(usage.prompt_tokens(), usage.completion_tokens());
  return absl::OkStatus();
}

CompletionRequest LocalRequest(const v1::GenerateConfig& flags, const AttentionWish& attention) {
  CompletionRequest request;
  if (flags.chat()) {
    request.chat.emplace();
    std::string& messages = request.chat->messages;
    messages = "[{\"role\":\"user\",\"content\":";
    AppendJsonString(flags.prompt(), messages);
    messages += "}]";
  } else {
    request.prompts.emplace_back(flags.prompt());
  }
  request.max_tokens = flags.max_tokens();
  request.temperature = flags.temperature();
  if (flags.seed() != 0) request.seed = flags.seed();
  request.attention = attention;
  return request;
}

absl::Status GenerateHere(const v1::GenerateConfig& flags, const AttentionWish& attention) {
  v1::ServeConfig settings = DefaultServeConfig();
  settings.set_model(flags.model());
  settings.set_device(flags.device());
  settings.set_threads(flags.threads());
  settings.set_kv_cache_tokens(flags.kv_cache_tokens());
  settings.set_threshold_table(flags.threshold_table());
  const absl::StatusOr<ServerConfig> config = ServerConfigFrom(settings);
  if (!config.ok()) return config.status();
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(config->engine, nullptr, {});
  if (!engine.ok()) return engine.status();
  const ServedModel model(**engine, *config, absl::ToUnixSeconds(absl::Now()));
  absl::StatusOr<MappedRequest> mapped =
      MapRequest(LocalRequest(flags, attention), model, absl::Now());
  if (!mapped.ok()) return mapped.status();
  Pace pace;
  absl::StatusOr<std::unique_ptr<CompletionStream>> stream =
      CompletionStream::Start(**engine, *std::move(mapped), nullptr, 0);
  if (!stream.ok()) return stream.status();
  std::vector<ChoiceUpdate> updates;
  for (bool more = true; more;) {
    (*stream)->Wait(absl::Seconds(1));
    const absl::StatusOr<bool> polled = (*stream)->Poll(updates);
    if (!polled.ok()) return polled.status();
    more = *polled;
    for (const ChoiceUpdate& update : updates) {
      if (!update.tokens.empty()) pace.Token();
      std::cout << update.text << std::flush;
    }
  }
  std::cout << std::endl;
  const StreamUsage usage = (*stream)->usage();
  if (!flags.quiet()) pace.Print(usage.prompt_tokens, usage.completion_tokens);
  return absl::OkStatus();
}

}  // namespace

int RunGenerate(const std::vector<std::string>& arguments) {
  v1::GenerateConfig flags = DefaultGenerateConfig();
  if (std::optional<int> end = ReadCommandLine(kUsage, arguments, flags)) return *end;
  if (flags.model().empty() == flags.server().empty()) {
    Fail(absl::InvalidArgumentError("give either --model or --server"));
    return 2;
  }
  if (flags.prompt().empty()) {
    Fail(absl::InvalidArgumentError("--prompt is missing or empty"));
    return 2;
  }
  const absl::StatusOr<AttentionWish> attention = ReadAttentionText(flags.attention());
  if (!attention.ok()) {
    Fail(attention.status());
    return 2;
  }
  const absl::Status status = flags.server().empty() ? GenerateHere(flags, *attention)
                                                     : GenerateFromServer(flags, *attention);
  return status.ok() ? 0 : Fail(status);
}

}  // namespace thresher
