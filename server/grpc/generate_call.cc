#include "server/grpc/generate_call.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "engine/text/utf8.h"
#include "server/grpc/call_shares.h"
#include "server/grpc/proto_request.h"
#include "server/out_of_memory.h"
#include "server/requests/wire_error.h"

namespace thresher {
namespace {

std::string Metadata(const grpc::CallbackServerContext& call, const char* name) {
  const auto found = call.client_metadata().find(name);
  if (found == call.client_metadata().end()) return "";
  return std::string(found->second.data(), found->second.size());
}

// gRPC's word for "no deadline" is the last time of its clock, which is an ordinary time to absl.
absl::Time DeadlineOf(const grpc::CallbackServerContext& call) {
  const std::chrono::system_clock::time_point deadline = call.deadline();
  return deadline == std::chrono::system_clock::time_point::max() ? absl::InfiniteFuture()
                                                                  : absl::FromChrono(deadline);
}

// Reactions come on gRPC's threads; each is posted to the stream thread, so nothing here is locked.
// `self_` keeps the call alive until OnDone; tasks that are still queued then hold it a moment
// longer.
class GenerateCall final : public grpc::ServerWriteReactor<v1::GenerateResponse>,
                           public std::enable_shared_from_this<GenerateCall> {
 public:
  GenerateCall(const GenerateServices& services, grpc::CallbackServerContext& call,
               const v1::GenerateRequest& message, CallShares shares)
      : services_(services), call_(call), message_(message), shares_(std::move(shares)) {}

  void Start() {
    self_ = shared_from_this();
    const absl::Time deadline = DeadlineOf(call_);
    const std::string level = Metadata(call_, "x-attention-level");
    absl::StatusOr<KeyGrant> grant = CheckCallKey(services_.context, call_);
    tag_ = services_.wakes.Add([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Guarded([&] { self->Pump(); });
    });
    services_.context.workers.Post([self = shared_from_this(), deadline, level,
                                    grant = std::move(grant)]() mutable {
      absl::Status status = grant.status();
      if (grant.ok()) {
        self->grant_ = *std::move(grant);
        const absl::Status memory = WithinMemory([&] { status = self->Submit(level, deadline); });
        if (!memory.ok()) status = memory;
      }
      self->services_.stream_thread.Post(
          [self, status] { self->Guarded([&] { self->Submitted(status); }); });
    });
  }

  void OnWriteDone(bool ok) override {
    services_.stream_thread.Post([self = shared_from_this(), ok] {
      self->writing_ = false;
      // Not ok: the client has gone; OnCancel tells what to do.
      if (ok) self->Guarded([&] { self->Pump(); });
    });
  }

  void OnCancel() override {
    services_.stream_thread.Post([self = shared_from_this()] { self->Cancelled(); });
  }

  void OnDone() override {
    services_.wakes.Remove(tag_);
    services_.stream_thread.Post([self = std::move(self_)] {
      self->stream_.reset();
      // Not with the call itself, which a worker may let go of after the front end has ended.
      self->shares_.call.Release();
      self->shares_.message_bytes.Release();
    });
  }

 private:
  // On a worker.
  absl::Status Submit(const std::string& level, absl::Time deadline) {
    // Nobody waits for it any more: it is not worth a tokenisation.
    if (call_.IsCancelled()) return absl::CancelledError("the call was cancelled");
    const absl::StatusOr<const ServedModel*> model = services_.context.state.Admit();
    if (!model.ok()) return model.status();
    tokenizer_ = &(*model)->engine.tokenizer();
    CompletionRequest request;
    request.header_level = level;
    request.key_level = grant_.level;
    request.deadline = deadline;
    absl::Status refused = ReadProto(message_, request);
    absl::StatusOr<MappedRequest> mapped = absl::UnknownError("not mapped");
    if (refused.ok()) {
      mapped = MapRequest(std::move(request), **model, absl::Now());
      refused = mapped.status();
    }
    if (!refused.ok()) {
      services_.context.metrics.CountRefused();
      return refused;
    }
    absl::StatusOr<std::unique_ptr<CompletionStream>> stream =
        CompletionStream::Start((*model)->engine, *std::move(mapped), &services_.wakes, tag_);
    if (!stream.ok()) return stream.status();
    submitted_ = *std::move(stream);
    return absl::OkStatus();
  }

  // From here on: the stream thread.
  template <typename Step>
  void Guarded(const Step& step) {
    if (const absl::Status status = WithinMemory(step); !status.ok()) End(status);
  }

  void Submitted(const absl::Status& status) {
    if (cancelled_) {
      submitted_.reset();
      return End(absl::CancelledError("the call was cancelled"));
    }
    if (!status.ok()) return End(status);
    stream_ = std::move(submitted_);
    FillStarted(stream_->request(), *response_.mutable_started());
    writing_ = true;
    StartWrite(&response_);
  }

  void Cancelled() {
    cancelled_ = true;
    if (stream_ == nullptr) return;  // Submitted ends the call
    stream_->Cancel();
    End(absl::CancelledError("the call was cancelled"));
  }

  void Pump() {
    if (ended_ || writing_ || stream_ == nullptr) return;
    if (next_ == updates_.size()) {
      if (over_) return WriteUsage();
      const absl::StatusOr<bool> more = stream_->Poll(updates_);
      if (!more.ok()) return End(more.status());
      over_ = !*more;
      next_ = 0;
    }
    for (; next_ < updates_.size(); ++next_) {
      const ChoiceUpdate& update = updates_[next_];
      const bool shows = !update.text.empty() || update.finish.has_value() ||
                         !update.tokens.empty() || !update.prompt_tokens.empty();
      if (!shows) continue;
      ++next_;
      response_.Clear();
      FillChunk(update, stream_->request().output, *tokenizer_, *response_.mutable_chunk());
      writing_ = true;
      return StartWrite(&response_);
    }
    if (over_) WriteUsage();
  }

  void WriteUsage() {
    if (usage_written_) return End(absl::OkStatus());
    usage_written_ = true;
    response_.Clear();
    FillUsage(stream_->usage(), *response_.mutable_usage());
    writing_ = true;
    StartWrite(&response_);
  }

  void End(const absl::Status& status) {
    if (ended_) return;
    ended_ = true;
    Finish(ToGrpc(status));
  }

  const GenerateServices services_;
  grpc::CallbackServerContext& call_;
  const v1::GenerateRequest& message_;
  CallShares shares_;
  std::shared_ptr<GenerateCall> self_;
  KeyGrant grant_;
  const Tokenizer* tokenizer_ = nullptr;
  std::uint64_t tag_ = 0;
  std::unique_ptr<CompletionStream> submitted_;  // from the worker to the stream thread
  std::unique_ptr<CompletionStream> stream_;
  v1::GenerateResponse response_;
  std::vector<ChoiceUpdate> updates_;
  std::size_t next_ = 0;  // of the updates, the first not written
  bool writing_ = false;
  bool over_ = false;
  bool usage_written_ = false;
  bool cancelled_ = false;
  bool ended_ = false;
};

// A call that was refused before it became one.
class RefusedCall final : public grpc::ServerWriteReactor<v1::GenerateResponse> {
 public:
  explicit RefusedCall(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerWriteReactor<v1::GenerateResponse>* StartGenerateCall(
    const GenerateServices& services, grpc::CallbackServerContext& call,
    const v1::GenerateRequest& message) {
  absl::StatusOr<CallShares> shares = TakeCallShares(services.context, services.calls, message);
  if (!shares.ok()) {
    services.context.metrics.CountRefused();
    return new RefusedCall(ToGrpc(shares.status()));
  }
  const auto reactor = std::make_shared<GenerateCall>(services, call, message, *std::move(shares));
  reactor->Start();
  return reactor.get();
}

absl::StatusOr<KeyGrant> CheckCallKey(ServerContext& context,
                                      const grpc::CallbackServerContext& call) {
  return context.keys.Check(Metadata(call, "authorization"));
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const WireErrorFields fields = DescribeError(status);
  // The codes of absl are gRPC's. A message must be UTF-8 to travel.
  absl::StatusCode code = status.code();
  if (fields.http_status == 400) code = absl::StatusCode::kInvalidArgument;
  return grpc::Status(static_cast<grpc::StatusCode>(code),
                      IsUtf8(fields.message) ? fields.message : "the request is not UTF-8",
                      fields.param);
}

}  // namespace thresher
