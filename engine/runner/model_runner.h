// Runs step plans on the model, on all ranks. The engine thread is its only caller.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/attention/attention_counts.h"
#include "engine/request.h"
#include "kernels/ops/sampling.h"
#include "scheduler/step_plan.h"

namespace thresher {

struct PreparedSampling;  // see sequence_sampler.h

// What a runner must know of a sequence, from before the first plan that names it.
struct SequenceStart {
  RequestId id{};
  int choice_index = 0;
  bool scores_prompt = false;  // this choice computes the request's prompt log-probabilities
  // Normalised by the engine: sampling.seed is set; stop_token_ids holds every token that ends the
  // sequence, ascending.
  std::shared_ptr<const GenerationRequest> request;
  std::shared_ptr<const PreparedSampling> sampling;  // of this request; not null
};

struct StepInput {
  StepPlan plan;
  std::vector<SequenceStart> started;  // since the step launched before
  std::vector<RequestId> ended;        // no plan from this one on names them
};

// The log-probability of prompt token `position` of the plan's sequence of that index.
struct PromptScore {
  int sequence_index = 0;
  int position = 0;
  SampledToken score;
};

struct StepOutput {
  std::vector<SampledToken> samples;  // one for each sampling sequence, in the plan's order
  std::vector<PromptScore> prompt_scores;
  // What attention read, by rank; empty: the runner does not count.
  std::vector<StepAttentionReport> attention;
};

enum class StepTicket : std::int64_t {};

class ModelRunner {
 public:
  virtual ~ModelRunner() = default;
  // Queues the step and returns. At most two steps may be queued or running. `input` and `output`
  // stay untouched by the caller until Wait has returned for the ticket.
  virtual StepTicket Launch(const StepInput& input, StepOutput& output) = 0;
  // Blocks until the step's output is there. Tickets are waited for in the order of launching.
  // Unavailable or the first rank's error: the runner has failed for good, and every later Wait
  // returns an error too, without delay.
  virtual absl::Status Wait(StepTicket ticket) = 0;
};

}  // namespace thresher
