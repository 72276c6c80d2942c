#include "server/grpc/grpc_service.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/grpc/call_shares.h"
#include "server/grpc/generate_call.h"
#include "server/grpc/port_check.h"
#include "server/grpc/unary_calls.h"
#include "server/out_of_memory.h"
#include "thresher/v1/inference.grpc.pb.h"

namespace thresher {
namespace {

constexpr char kServiceName[] = "thresher.v1.InferenceService";

// A call that answers once. Owns itself until gRPC is done with it.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  UnaryCall(CallShares shares, KeyGrant grant)
      : shares_(std::move(shares)), grant_(std::move(grant)) {}
  explicit UnaryCall(const absl::Status& refused) { Finish(ToGrpc(refused)); }
  void OnDone() override { delete this; }

 private:
  const std::optional<CallShares> shares_;
  const KeyGrant grant_;
};

class Service final : public v1::InferenceService::CallbackService {
 public:
  explicit Service(const GenerateServices& services) : services_(services) {}

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* call, const v1::GenerateRequest* request) override {
    return StartGenerateCall(services_, *call, *request);
  }
  grpc::ServerUnaryReactor* Abort(grpc::CallbackServerContext* call,
                                  const v1::AbortRequest* request,
                                  v1::AbortResponse* response) override {
    return Answer(*call, *request, *response, AnswerAbort);
  }
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* call,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override {
    return Answer(*call, *request, *response, AnswerTokenize);
  }
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* call,
                                       const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response) override {
    return Answer(*call, *request, *response, AnswerDetokenize);
  }
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* call,
                                       const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override {
    return Answer(*call, *request, *response, AnswerListModels);
  }
  grpc::ServerUnaryReactor* ListAttentionPolicies(
      grpc::CallbackServerContext* call, const v1::ListAttentionPoliciesRequest* request,
      v1::ListAttentionPoliciesResponse* response) override {
    return Answer(*call, *request, *response, AnswerListPolicies);
  }
  grpc::ServerUnaryReactor* GetLoad(grpc::CallbackServerContext* call,
                                    const v1::GetLoadRequest* request,
                                    v1::GetLoadResponse* response) override {
    return Answer(*call, *request, *response, AnswerLoad);
  }

 private:
  // gRPC keeps request and response alive until the reactor is done.
  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext& call, const Request& request,
                                   Response& response,
                                   absl::Status (*answer)(ServerContext&, const Request&,
                                                          Response&)) {
    ServerContext& context = services_.context;
    absl::StatusOr<CallShares> shares = TakeCallShares(context, services_.calls, request);
    if (!shares.ok()) return new UnaryCall(shares.status());
    absl::StatusOr<KeyGrant> grant = CheckCallKey(context, call);
    if (!grant.ok()) return new UnaryCall(grant.status());
    auto* reactor = new UnaryCall(*std::move(shares), *std::move(grant));
    context.workers.Post([&context, &call, &request, &response, answer, reactor] {
      // Nobody waits for it any more: it is not worth a tokenisation.
      if (call.IsCancelled()) return reactor->Finish(grpc::Status::CANCELLED);
      absl::Status status;
      const absl::Status memory =
          WithinMemory([&] { status = answer(context, request, response); });
      reactor->Finish(ToGrpc(memory.ok() ? status : memory));
    });
    return reactor;
  }

  const GenerateServices services_;
};

}  // namespace

struct GrpcFrontend::State {
  explicit State(ServerContext& context)
      : stream_thread(1),
        wakes(stream_thread),
        calls("open gRPC calls", context.config.max_grpc_calls),
        service({context, stream_thread, wakes, calls}) {}

  TaskQueue stream_thread;
  CallWakes wakes;
  Quota calls;
  Service service;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

GrpcFrontend::GrpcFrontend(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<GrpcFrontend>> GrpcFrontend::Start(ServerContext& context) {
  const ServerConfig& config = context.config;
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  auto state = std::make_unique<State>(context);
  if (absl::Status status = CheckPortIsFree(config.host, config.grpc_port); !status.ok()) {
    return status;
  }
  const bool ipv6 = config.host.find(':') != std::string::npos;
  const std::string address =
      absl::StrCat(ipv6 ? "[" : "", config.host, ipv6 ? "]:" : ":", config.grpc_port);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &state->port);
  builder.SetMaxReceiveMessageSize(static_cast<int>(config.limits.max_body_bytes));
  // Two servers on one port would each get some of the calls; the second must fail to start.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.RegisterService(&state->service);
  state->server = builder.BuildAndStart();
  if (state->server == nullptr || state->port == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address, " for gRPC"));
  }
  std::unique_ptr<GrpcFrontend> frontend(new GrpcFrontend(std::move(state)));
  frontend->SetServing(false);
  return frontend;
}

GrpcFrontend::~GrpcFrontend() { Shutdown(absl::ZeroDuration()); }

int GrpcFrontend::port() const { return state_->port; }

void GrpcFrontend::SetServing(bool serving) {
  grpc::HealthCheckServiceInterface* health = state_->server->GetHealthCheckService();
  health->SetServingStatus("", serving);
  health->SetServingStatus(kServiceName, serving);
}

void GrpcFrontend::Shutdown(absl::Duration grace) {
  if (state_->server == nullptr) return;
  SetServing(false);
  state_->server->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(grace));
  state_->server->Wait();
  state_->server.reset();
  state_->stream_thread.Stop();
}

}  // namespace thresher
