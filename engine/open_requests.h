// The open requests by the scheduler's ids: admits them, turns samples into events, and sees to it
// that each choice ends exactly once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "engine/attention/attention_catalog.h"
#include "engine/deadline_queue.h"
#include "engine/engine_observer.h"
#include "engine/open_request.h"
#include "engine/request_inbox.h"
#include "engine/runner/model_runner.h"
#include "engine/stream_publisher.h"
#include "scheduler/scheduler.h"

namespace thresher {

// The engine thread's own. All that is passed in outlives it.
class OpenRequests final {
 public:
  // batch_invariant: no prompt reads blocks that decoding wrote.
  OpenRequests(const AttentionCatalog& attention, Scheduler& scheduler, StreamPublisher& publisher,
               RequestInbox& inbox, EngineObserver* observer, bool batch_invariant)
      : attention_(attention),
        scheduler_(scheduler),
        publisher_(publisher),
        inbox_(inbox),
        observer_(observer),
        batch_invariant_(batch_invariant) {}

  // Queues the request's choices at the scheduler and appends what the runner must know of them. A
  // request that the scheduler refuses ends with its error.
  void Admit(const std::shared_ptr<OpenRequest>& request, absl::Time now,
             std::vector<SequenceStart>& started);
  // Ends what is open of the request. Cancelled makes it kAborted, all else kError.
  void End(const std::shared_ptr<OpenRequest>& request, const absl::Status& reason, absl::Time now);
  void EndAll(const absl::Status& reason, absl::Time now);
  void EndExpired(absl::Time now);
  // Its reader has found a stop string. No effect on a choice that has ended or does not exist.
  void StopChoice(const std::shared_ptr<OpenRequest>& request, int choice, absl::Time now);

  // A plan is about to be launched.
  void NoteScheduled(const StepPlan& plan, absl::Time now);
  // The log-probabilities of prompt tokens that a step gave. Before TakeSample of the same step. A
  // score that is not valid ends its request.
  void TakePromptScores(const StepPlan& plan, std::span<const PromptScore> scores, absl::Time now);
  // What a step's attention read, by rank. Before TakeSample of the same step.
  void TakeAttention(const StepPlan& plan, std::span<const StepAttentionReport> ranks);
  // By level and policy, of the last TakeAttention.
  std::span<const AttentionSeries> attention_series() const { return series_; }
  // Stages the sample's event; what the scheduler must know of it. Before the step's Commit.
  StepResult::Sample TakeSample(const ScheduledSequence& sequence, const SampledToken& sample,
                                absl::Time now);
  // Forgets a sequence that the scheduler has let go.
  void Retire(const FinishedRequest& finished);

  // Publishes what was staged, calls the listeners, and cancels the requests of stalled readers.
  void Publish(absl::Time now);

  // Since the start: prompt tokens of the requests whose first token has come, each counted once
  // whatever its choices, and tokens generated.
  std::int64_t num_prompt_tokens() const { return num_prompt_tokens_; }
  std::int64_t num_generated_tokens() const { return num_generated_tokens_; }

 private:
  struct ChoiceRef {
    std::shared_ptr<OpenRequest> request;
    int choice = 0;
  };
  // Stages the choice's last event, and closes the request if it was the last choice.
  void EndChoice(const std::shared_ptr<OpenRequest>& request, int choice, TokenEvent event,
                 absl::Time now);
  void Close(const std::shared_ptr<OpenRequest>& request, absl::Time now);
  int SeriesOf(const std::string& level, const std::string& policy);

  const AttentionCatalog& attention_;
  Scheduler& scheduler_;
  StreamPublisher& publisher_;
  RequestInbox& inbox_;
  EngineObserver* const observer_;
  const bool batch_invariant_;
  std::vector<AttentionSeries> series_;
  DeadlineQueue deadlines_;
  std::int64_t next_id_ = 1;
  std::int64_t num_prompt_tokens_ = 0, num_generated_tokens_ = 0;
  absl::flat_hash_map<RequestId, ChoiceRef> sequences_;
  std::vector<std::shared_ptr<OpenRequest>> stalled_, closed_;
};

}  // namespace thresher
