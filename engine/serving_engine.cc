// The engine as callers see it: validates and normalises requests, and owns the parts.
#include <algorithm>
#include <mutex>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/engine_loop.h"
#include "engine/engine_parts.h"
#include "engine/request_inbox.h"
#include "engine/request_validation.h"
#include "engine/runner/sequence_sampler.h"

namespace thresher {
namespace {

class StreamHandle final : public RequestHandle {
 public:
  StreamHandle(std::shared_ptr<RequestInbox> inbox, std::shared_ptr<OpenRequest> request)
      : inbox_(std::move(inbox)), request_(std::move(request)) {}
  ~StreamHandle() override {
    request_->stream->Detach();
    inbox_->Cancel(request_, absl::CancelledError("the handle was destroyed"));
  }

  bool Poll(std::vector<TokenEvent>& events) override { return request_->stream->Poll(events); }
  void Wait(absl::Duration timeout) override { request_->stream->Wait(timeout); }
  void Cancel() override {
    inbox_->Cancel(request_, absl::CancelledError("the request was cancelled"));
  }
  void CancelChoice(int choice) override { inbox_->CancelChoice(request_, choice); }
  RequestUsage usage() const override { return request_->stream->usage(); }
  const PromptLogprobs* prompt_logprobs() const override {
    return request_->stream->prompt_logprobs();
  }

 private:
  const std::shared_ptr<RequestInbox> inbox_;
  const std::shared_ptr<OpenRequest> request_;
};

class ServingEngine final : public Engine {
 public:
  ServingEngine(EngineParts parts, EngineObserver* observer)
      : parts_(std::move(parts)),
        observer_(observer),
        seeds_(parts_.seed),
        gate_(std::make_shared<ListenerGate>()),
        inbox_(std::make_shared<RequestInbox>(RequestInbox::Limits{
            parts_.scheduler.max_queued_requests, parts_.scheduler.max_queued_prompt_tokens})),
        loop_({*parts_.attention, parts_.scheduler, parts_.stalled_reader_timeout, parts_.clock,
               parts_.batch_invariant},
              *parts_.runner, *inbox_, gate_, observer) {}

  absl::StatusOr<std::unique_ptr<RequestHandle>> Submit(GenerationRequest request,
                                                        StreamListener* listener,
                                                        std::uint64_t tag) override {
    std::vector<GenerationRequest> one;
    one.push_back(std::move(request));
    absl::StatusOr<std::vector<std::unique_ptr<RequestHandle>>> handles =
        SubmitTogether(std::move(one), listener, tag);
    if (!handles.ok()) return handles.status();
    return std::move(handles->front());
  }

  absl::StatusOr<std::vector<std::unique_ptr<RequestHandle>>> SubmitTogether(
      std::vector<GenerationRequest> requests, StreamListener* listener,
      std::uint64_t tag) override {
    std::vector<RequestReport> rejected(requests.size());
    std::vector<std::shared_ptr<OpenRequest>> opened;
    absl::Status status;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      rejected[i].prompt_tokens = static_cast<int>(requests[i].prompt.size());
      if (!status.ok()) continue;
      absl::StatusOr<std::shared_ptr<OpenRequest>> open = Open(requests[i], listener, tag);
      if (open.ok()) {
        opened.push_back(*std::move(open));
      } else {
        status = open.status();
      }
    }
    if (status.ok()) status = inbox_->Submit(opened);
    if (!status.ok()) {
      ReportRejected(rejected);
      return status;
    }
    std::vector<std::unique_ptr<RequestHandle>> handles;
    for (std::shared_ptr<OpenRequest>& open : opened) {
      handles.push_back(std::make_unique<StreamHandle>(inbox_, std::move(open)));
    }
    return handles;
  }

  absl::Status Abort(const std::string& request_id) override {
    return inbox_->CancelById(request_id, absl::CancelledError("the request was aborted"));
  }

  const Tokenizer& tokenizer() const override { return *parts_.tokenizer; }
  const ChatTemplate* chat_template() const override { return parts_.chat_template.get(); }
  const ModelConfig& model_config() const override { return parts_.model_config; }
  const GenerationDefaults& generation_defaults() const override {
    return parts_.generation_defaults;
  }
  const AttentionCatalog& attention() const override { return *parts_.attention; }
  int max_model_len() const override { return parts_.max_model_len; }
  EngineLoad load() const override { return loop_.load(); }

  EngineHealth health() const override {
    if (loop_.failed()) return EngineHealth::kFailed;
    return drains_.load() ? EngineHealth::kDraining : EngineHealth::kServing;
  }
  absl::Time last_progress() const override { return loop_.last_progress(); }

  void Drain(absl::Time deadline) override {
    // Short waits, since the clock may be one that a test sets.
    constexpr absl::Duration kLongestWait = absl::Milliseconds(50);
    drains_.store(true);
    const absl::Status refusal = absl::UnavailableError("the engine is draining");
    inbox_->Close(refusal);
    while (true) {
      const absl::Duration left = deadline - parts_.clock();
      if (left <= absl::ZeroDuration()) break;
      if (inbox_->WaitUntilNoneOpen(std::min(left, kLongestWait))) return;
    }
    inbox_->CancelAll(absl::UnavailableError("the engine was drained before the request's end"));
    while (!inbox_->WaitUntilNoneOpen(kLongestWait)) {
    }
  }

 private:
  void ReportRejected(std::vector<RequestReport>& reports) {
    if (observer_ == nullptr) return;
    for (RequestReport& rejected : reports) {
      rejected.outcome = RequestOutcome::kRejected;
      // Not the request's own names: they were not checked.
      rejected.level = "off";
      rejected.prefill_policy = rejected.decode_policy = "dense";
      observer_->OnRequestEnd(rejected);
    }
  }

  // The request checked and with all that its steps need; its parts are moved from.
  absl::StatusOr<std::shared_ptr<OpenRequest>> Open(GenerationRequest& request,
                                                    StreamListener* listener, std::uint64_t tag) {
    const RequestLimits limits{parts_.model_config.vocab_size, parts_.max_model_len,
                               parts_.attention.get()};
    if (absl::Status status = ValidateRequest(request, limits); !status.ok()) return status;
    auto open = std::make_shared<OpenRequest>();
    open->submit_time = parts_.clock();
    open->max_generated = request.max_tokens.value_or(
        std::max(1, parts_.max_model_len - static_cast<int>(request.prompt.size())));
    open->choices.resize(static_cast<std::size_t>(request.n));
    open->num_open_choices = request.n;
    open->usage.prompt_tokens = static_cast<int>(request.prompt.size());
    open->usage.prefill_policy = request.attention.prefill.policy;
    open->usage.decode_policy = request.attention.decode.policy;
    open->usage.k = parts_.attention->TargetOf(request.attention);
    open->stream =
        std::make_shared<RequestStream>(gate_, listener, tag, parts_.stream_capacity * request.n);
    Normalise(request);
    open->sampling = PrepareSampling(request, std::max(1, open->max_generated));
    open->request = std::make_shared<const GenerationRequest>(std::move(request));
    return open;
  }

  // What SequenceStart promises to runners.
  void Normalise(GenerationRequest& request) {
    if (!request.sampling.seed.has_value()) {
      const std::lock_guard<std::mutex> lock(seeds_mutex_);
      request.sampling.seed = seeds_();
    }
    request.sampling.top_k = std::max(0, request.sampling.top_k);
    std::vector<TokenId>& stops = request.stop_token_ids;
    if (!request.ignore_eos) {
      const std::vector<TokenId>& ends = parts_.generation_defaults.end_tokens;
      stops.insert(stops.end(), ends.begin(), ends.end());
    }
    std::sort(stops.begin(), stops.end());
    stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
  }

  const EngineParts parts_;
  EngineObserver* const observer_;
  std::mutex seeds_mutex_;
  std::mt19937_64 seeds_;
  const std::shared_ptr<ListenerGate> gate_;
  const std::shared_ptr<RequestInbox> inbox_;
  std::atomic<bool> drains_{false};
  EngineLoop loop_;  // last: its thread uses the rest
};

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> CreateEngine(EngineParts parts, EngineObserver* observer) {
  if (parts.max_model_len < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_model_len is ", parts.max_model_len, "; it must be at least 1"));
  }
  // A prompt that fills the context still yields one token, whose K and V are never cached.
  parts.scheduler.max_sequence_length = parts.max_model_len + 1;
  if (absl::Status status = parts.scheduler.Validate(); !status.ok()) return status;
  if (parts.attention == nullptr) {
    absl::StatusOr<std::unique_ptr<AttentionCatalog>> attention =
        AttentionCatalog::Create({}, nullptr);
    if (!attention.ok()) return attention.status();
    parts.attention = *std::move(attention);
  }
  return std::make_unique<ServingEngine>(std::move(parts), observer);
}

}  // namespace thresher
