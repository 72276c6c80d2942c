#include "engine/open_requests.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

RequestOutcome OutcomeOf(const TokenEvent& event) {
  switch (event.status.code()) {
    case absl::StatusCode::kOk:
      return *event.finish == FinishReason::kStop ? RequestOutcome::kStop : RequestOutcome::kLength;
    case absl::StatusCode::kCancelled:
      return RequestOutcome::kAborted;
    case absl::StatusCode::kDeadlineExceeded:
      return RequestOutcome::kDeadline;
    case absl::StatusCode::kResourceExhausted:
      return RequestOutcome::kRejected;
    default:
      return RequestOutcome::kError;
  }
}

TokenEvent FailedEvent(const absl::Status& reason) {
  return {.finish = reason.code() == absl::StatusCode::kCancelled ? FinishReason::kAborted
                                                                  : FinishReason::kError,
          .status = reason};
}

absl::Status WhyNoToken(const SampledToken& sample) {
  if (sample.bad_field == nullptr) {
    return absl::InternalError("the model gave no finite logit for a token");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the sampler cannot draw: ", sample.bad_field, " is out of range"));
}

TokenLogprobs ToLogprobs(const SampledToken& sample) {
  TokenLogprobs logprobs{.logprob = sample.logprob, .rank = sample.rank, .top = {}};
  logprobs.top.reserve(static_cast<std::size_t>(sample.num_top));
  for (int i = 0; i < sample.num_top; ++i) {
    logprobs.top.emplace_back(sample.top[i].token, sample.top[i].logprob);
  }
  return logprobs;
}

}  // namespace

void OpenRequests::Admit(const std::shared_ptr<OpenRequest>& request, absl::Time now,
                         std::vector<SequenceStart>& started) {
  const GenerationRequest& wanted = *request->request;
  const bool scores_prompt = wanted.sampling.prompt_logprobs.has_value();
  std::vector<RequestSpec> specs(request->choices.size());
  // The choices share one prompt, and so its rules; the first one's id tells the request apart.
  const PrefixRules rules =
      attention_.PrefixRulesOf(wanted.attention, request->prompt_length(),
                               static_cast<std::uint64_t>(next_id_), batch_invariant_);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    request->choices[i].id = RequestId{next_id_++};
    RequestSpec& spec = specs[i];
    spec.id = request->choices[i].id;
    spec.prompt = wanted.prompt;
    // Scoring a prompt runs its last token too: what is drawn after it is dropped.
    if (wanted.max_tokens.has_value()) spec.max_new_tokens = std::max(1, *wanted.max_tokens);
    spec.priority = wanted.priority;
    if (i > 0) spec.prefix_leader = request->choices[0].id;
    // A cached prompt token has no row that scores the token after it.
    spec.use_prefix_cache = i > 0 || !scores_prompt;
    spec.prefix_salts = rules.salts;
    spec.prefill_chunk_multiple = rules.prefill_chunk_multiple;
  }
  if (absl::Status status = scheduler_.Submit(specs, now); !status.ok()) {
    return End(request, status, now);
  }
  for (std::size_t i = 0; i < request->choices.size(); ++i) {
    const RequestId id = request->choices[i].id;
    const int choice = static_cast<int>(i);
    sequences_.emplace(id, ChoiceRef{request, choice});
    started.push_back(
        {id, choice, choice == 0 && scores_prompt, request->request, request->sampling});
  }
  request->prefill_series = SeriesOf(wanted.attention.level, wanted.attention.prefill.policy);
  request->decode_series = SeriesOf(wanted.attention.level, wanted.attention.decode.policy);
  if (scores_prompt) request->prompt_logprobs.resize(wanted.prompt.size());
  if (wanted.deadline.has_value()) deadlines_.Add(*wanted.deadline, request);
}

void OpenRequests::End(const std::shared_ptr<OpenRequest>& request, const absl::Status& reason,
                       absl::Time now) {
  for (int i = 0; i < static_cast<int>(request->choices.size()); ++i) {
    if (request->choices[i].ended) continue;
    scheduler_.Cancel(request->choices[i].id);
    EndChoice(request, i, FailedEvent(reason), now);
  }
}

void OpenRequests::EndAll(const absl::Status& reason, absl::Time now) {
  for (const auto& [id, ref] : sequences_) End(ref.request, reason, now);
}

void OpenRequests::EndExpired(absl::Time now) {
  while (const std::shared_ptr<OpenRequest> request = deadlines_.TakeExpired(now)) {
    End(request, absl::DeadlineExceededError("the request's deadline has passed"), now);
  }
}

void OpenRequests::StopChoice(const std::shared_ptr<OpenRequest>& request, int choice,
                              absl::Time now) {
  const bool exists = choice >= 0 && choice < static_cast<int>(request->choices.size());
  if (!exists || request->choices[choice].ended) return;
  scheduler_.Cancel(request->choices[choice].id);
  EndChoice(request, choice, {.finish = FinishReason::kStop}, now);
}

void OpenRequests::NoteScheduled(const StepPlan& plan, absl::Time now) {
  for (const ScheduledSequence& sequence : plan.sequences) {
    const auto found = sequences_.find(sequence.id);
    assert(found != sequences_.end());
    OpenRequest& request = *found->second.request;
    if (!request.schedule_time.has_value()) request.schedule_time = now;
  }
}

void OpenRequests::TakePromptScores(const StepPlan& plan, std::span<const PromptScore> scores,
                                    absl::Time now) {
  for (const PromptScore& score : scores) {
    const auto found = sequences_.find(plan.sequences[score.sequence_index].id);
    if (found == sequences_.end()) continue;
    const std::shared_ptr<OpenRequest>& open = found->second.request;
    OpenRequest& request = *open;
    if (request.prompt_logprobs.empty()) continue;  // given to the reader already
    if (!score.score.valid) {
      End(open, WhyNoToken(score.score), now);
      continue;
    }
    request.prompt_logprobs[score.position] = ToLogprobs(score.score);
  }
}

int OpenRequests::SeriesOf(const std::string& level, const std::string& policy) {
  for (std::size_t i = 0; i < series_.size(); ++i) {
    if (series_[i].level == level && series_[i].policy == policy) return static_cast<int>(i);
  }
  series_.push_back({.level = level, .policy = policy, .counts = {}});
  return static_cast<int>(series_.size()) - 1;
}

void OpenRequests::TakeAttention(const StepPlan& plan, std::span<const StepAttentionReport> ranks) {
  for (AttentionSeries& series : series_) series.counts = {};
  if (ranks.empty()) return;
  for (std::size_t i = 0; i < plan.sequences.size(); ++i) {
    const auto found = sequences_.find(plan.sequences[i].id);
    if (found == sequences_.end()) continue;
    OpenRequest& request = *found->second.request;
    // A step that was launched before its choice ended is nobody's.
    if (request.choices[static_cast<std::size_t>(found->second.choice)].ended) continue;
    const bool decodes = plan.sequences[i].context_length >= request.prompt_length();
    AttentionCounts& series =
        series_[static_cast<std::size_t>(decodes ? request.decode_series : request.prefill_series)]
            .counts;
    for (const StepAttentionReport& rank : ranks) {
      request.usage.attention.Add(rank.sequences[i]);
      series.Add(rank.sequences[i]);
    }
  }
}

StepResult::Sample OpenRequests::TakeSample(const ScheduledSequence& sequence,
                                            const SampledToken& sample, absl::Time now) {
  const auto found = sequences_.find(sequence.id);
  // Drawn while the step that ended the sequence was still running.
  if (found == sequences_.end()) return {};
  const std::shared_ptr<OpenRequest>& request = found->second.request;
  const int index = found->second.choice;
  OpenChoice& choice = request->choices[index];
  if (choice.ended) return {.token = std::max(0, sample.token), .ends = true};  // cancelled
  if (!sample.valid) {
    EndChoice(request, index, FailedEvent(WhyNoToken(sample)), now);
    return {.token = 0, .ends = true};
  }
  if (!request->first_token_time.has_value()) {
    request->first_token_time = now;
    num_prompt_tokens_ += request->prompt_length();
    if (!request->prompt_logprobs.empty()) {
      request->stream->SetPromptLogprobs(std::move(request->prompt_logprobs));
      request->prompt_logprobs.clear();
    }
  }
  if (choice.num_generated == 0 && index == 0) {
    request->usage.cached_tokens = scheduler_.Progress(sequence.id)->num_prefix_hit_tokens;
  }
  if (request->max_generated == 0) {
    EndChoice(request, index, {.finish = FinishReason::kLength}, now);
    return {.token = sample.token, .ends = true};
  }
  if (choice.num_generated > 0 && observer_ != nullptr) {
    observer_->OnInterToken(now - choice.last_token_time);
  }
  choice.last_token_time = now;
  ++choice.num_generated;
  ++request->usage.generated_tokens;
  ++num_generated_tokens_;
  const std::vector<TokenId>& stop_ids = request->request->stop_token_ids;
  const bool stops = std::binary_search(stop_ids.begin(), stop_ids.end(), sample.token);
  const bool ends = stops || choice.num_generated >= request->max_generated;
  TokenEvent event{.choice = index};
  if (stops) {
    event.stop_token = sample.token;
  } else {
    event.token = sample.token;
    if (request->request->sampling.logprobs.has_value()) event.logprobs = ToLogprobs(sample);
  }
  if (ends) {
    event.finish = stops ? FinishReason::kStop : FinishReason::kLength;
    EndChoice(request, index, std::move(event), now);
  } else {
    publisher_.Stage(request, std::move(event));
  }
  return {.token = sample.token, .ends = ends};
}

void OpenRequests::Retire(const FinishedRequest& finished) {
  const auto found = sequences_.find(finished.id);
  assert(found != sequences_.end());
  // Its last event was staged when its last token was taken or its cancellation came.
  assert(found->second.request->choices[found->second.choice].ended);
  sequences_.erase(found);
}

void OpenRequests::EndChoice(const std::shared_ptr<OpenRequest>& request, int choice,
                             TokenEvent event, absl::Time now) {
  request->choices[choice].ended = true;
  event.choice = choice;
  const RequestOutcome outcome = OutcomeOf(event);
  request->outcome = std::max(request->outcome.value_or(outcome), outcome);
  publisher_.Stage(request, std::move(event));
  if (--request->num_open_choices == 0) Close(request, now);
}

void OpenRequests::Close(const std::shared_ptr<OpenRequest>& request, absl::Time now) {
  inbox_.ReleaseId(*request);
  closed_.push_back(request);
  if (observer_ == nullptr) return;
  RequestReport report;
  report.outcome = *request->outcome;
  report.level = request->request->attention.level;
  report.prefill_policy = request->request->attention.prefill.policy;
  report.decode_policy = request->request->attention.decode.policy;
  report.prompt_tokens = request->prompt_length();
  report.generated_tokens = request->usage.generated_tokens;
  report.queue_time = request->schedule_time.value_or(now) - request->submit_time;
  report.total_time = now - request->submit_time;
  if (request->first_token_time.has_value()) {
    report.time_to_first_token = *request->first_token_time - request->submit_time;
  }
  observer_->OnRequestEnd(report);
}

void OpenRequests::Publish(absl::Time now) {
  publisher_.Publish(now, stalled_);
  if (!stalled_.empty()) {
    const absl::Status reason = absl::CancelledError(
        "the reader of the stream is too slow: it left events unread for too long, or too many");
    for (const std::shared_ptr<OpenRequest>& request : stalled_) End(request, reason, now);
    stalled_.clear();
    publisher_.Publish(now, stalled_);
  }
  publisher_.Notify();
  // Only now: who waits for the last open request may destroy the listeners.
  for (const std::shared_ptr<OpenRequest>& request : closed_) inbox_.CountEnded(*request);
  closed_.clear();
}

}  // namespace thresher
