// The one thread that owns the scheduler and all request state: takes commands, keeps two steps in
// flight on the runner, and has results turned into events.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/engine.h"
#include "engine/open_requests.h"
#include "engine/request_inbox.h"
#include "engine/runner/model_runner.h"
#include "engine/stream_publisher.h"
#include "engine/throughput_meter.h"
#include "scheduler/scheduler.h"

namespace thresher {

struct EngineLoopOptions {
  const AttentionCatalog& attention;
  SchedulerOptions scheduler;
  absl::Duration stalled_reader_timeout;
  std::function<absl::Time()> clock;
  bool batch_invariant = false;
};

// All that is passed in outlives the loop. The public methods may be called from any thread.
class EngineLoop final {
 public:
  EngineLoop(const EngineLoopOptions& options, ModelRunner& runner, RequestInbox& inbox,
             std::shared_ptr<ListenerGate> gate, EngineObserver* observer);
  // Ends what is open with Unavailable, waits for the steps in flight, joins the thread.
  ~EngineLoop();

  EngineLoad load() const;
  bool failed() const { return failed_.load(); }
  absl::Time last_progress() const;

 private:
  static constexpr int kMaxInFlight = 2;

  struct Slot {
    StepInput input;
    StepOutput output;
    StepTicket ticket{};
    absl::Time launch_time;
  };

  void Run();
  void Apply(const InboxCommand& command, absl::Time now);
  // False if there is nothing to run.
  bool LaunchStep();
  void CompleteStep();
  void RetireFinished();
  void ReportStep(const Slot& slot, absl::Time now);
  // What a report says when no step has run: the load and the totals.
  StepReport LoadReport() const;
  void Fail(const absl::Status& reason);
  std::int64_t num_in_flight() const { return num_launched_ - num_completed_; }

  const EngineLoopOptions options_;
  ModelRunner& runner_;
  RequestInbox& inbox_;
  EngineObserver* const observer_;

  // The engine thread's own.
  Scheduler scheduler_;
  StreamPublisher publisher_;
  OpenRequests requests_;
  std::array<Slot, kMaxInFlight> slots_;
  std::int64_t num_launched_ = 0, num_completed_ = 0;
  absl::Time last_result_time_ = absl::InfinitePast();
  absl::Status failure_;
  std::vector<InboxCommand> commands_;
  std::vector<SequenceStart> started_;  // for the next launch
  std::vector<RequestId> ended_;        // likewise
  std::vector<FinishedRequest> finished_;
  std::vector<StepResult::Sample> samples_;

  // What other threads ask for.
  std::atomic<bool> failed_{false}, waits_for_work_{false};
  std::atomic<std::int64_t> last_progress_ns_;
  mutable std::mutex load_mutex_;
  SchedulerLoad scheduler_load_;
  ThroughputMeter throughput_;

  std::thread thread_;  // last: starts when all else is there
};

}  // namespace thresher
