// Plain numbers out of the engine, after each step and each request.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/time/time.h"
#include "engine/attention/attention_counts.h"

namespace thresher {

// What a step's attention read under one policy and level, over all ranks.
struct AttentionSeries {
  std::string level;  // a configured name or "custom"
  std::string policy;
  AttentionCounts counts;
};

struct StepReport {
  absl::Duration step_time;  // launch to result
  int num_prefill_tokens = 0;
  int num_decode_tokens = 0;
  int num_running = 0, num_waiting = 0;
  std::int64_t blocks_free = 0, blocks_cached = 0, blocks_owned = 0;
  std::int64_t prompt_tokens = 0;          // since start, of requests whose first token has come
  std::int64_t generated_tokens = 0;       // since start
  std::int64_t num_preemptions = 0;        // since start
  std::int64_t prefix_queried_tokens = 0;  // since start
  std::int64_t prefix_hit_tokens = 0;      // since start
  // Of this step; entries keep their place from step to step, and come but never go.
  std::span<const AttentionSeries> attention;
  std::array<ThresholdFidelity, kNumRowLengths> fidelity = {};  // by row length
  ShadowReport shadow;
};

enum class RequestOutcome { kStop, kLength, kAborted, kDeadline, kError, kRejected };

struct RequestReport {
  RequestOutcome outcome{};
  std::string level, prefill_policy, decode_policy;
  int prompt_tokens = 0, generated_tokens = 0;
  absl::Duration queue_time, total_time;
  std::optional<absl::Duration> time_to_first_token;
};

// Called on the engine thread (kRejected: on the submitting thread); must return at once.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  // After each step, and once before the first, when nothing has run.
  virtual void OnStep(const StepReport& report) = 0;
  // A token came `since_last` after the choice's token before. Not for its first.
  virtual void OnInterToken(absl::Duration since_last) = 0;
  virtual void OnRequestEnd(const RequestReport& report) = 0;
};

}  // namespace thresher
