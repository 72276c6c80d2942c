#include "server/grpc/grpc_service.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/grpc/generate_call.h"
#include "server/grpc/unary_calls.h"
#include "thresher/v1/inference.grpc.pb.h"

namespace thresher {
namespace {

constexpr char kServiceName[] = "thresher.v1.InferenceService";

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
  // gRPC keeps request and response alive until the reactor has finished.
  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext& call, const Request& request,
                                   Response& response,
                                   absl::Status (*answer)(ServerContext&, const Request&,
                                                          Response&)) {
    grpc::ServerUnaryReactor* reactor = call.DefaultReactor();
    ServerContext& context = services_.context;
    if (const auto grant = CheckCallKey(context, call); !grant.ok()) {
      reactor->Finish(ToGrpc(grant.status()));
      return reactor;
    }
    context.workers.Post([&context, &request, &response, answer, reactor] {
      reactor->Finish(ToGrpc(answer(context, request, response)));
    });
    return reactor;
  }

  const GenerateServices services_;
};

}  // namespace

struct GrpcFrontend::State {
  explicit State(ServerContext& context)
      : stream_thread(1), wakes(stream_thread), service({context, stream_thread, wakes}) {}

  TaskQueue stream_thread;
  CallWakes wakes;
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
