// A request between its Submit and its last event, as the engine thread knows it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "engine/engine_observer.h"
#include "engine/request.h"
#include "engine/request_stream.h"
#include "engine/runner/model_runner.h"

namespace thresher {

struct OpenChoice {
  RequestId id{};  // the scheduler's name for it
  int num_generated = 0;
  bool ended = false;  // its last event has been staged
  absl::Time last_token_time;
};

// The first group is set before the request reaches the engine thread and then constant; all else
// belongs to the engine thread.
struct OpenRequest {
  // Normalised: see SequenceStart.
  std::shared_ptr<const GenerationRequest> request;
  std::shared_ptr<const PreparedSampling> sampling;
  std::shared_ptr<RequestStream> stream;
  int max_generated = 0;  // a choice ends for its length after so many tokens; 0: scores the prompt
  absl::Time submit_time;

  std::vector<OpenChoice> choices;
  int num_open_choices = 0;
  std::optional<absl::Time> schedule_time, first_token_time;
  RequestUsage usage;
  PromptLogprobs prompt_logprobs;
  std::optional<RequestOutcome> outcome;      // the gravest of the choices so far
  std::vector<TokenEvent> staged;             // this step's events, not published yet
  bool is_staged = false;                     // listed among the streams to publish
  int prefill_series = 0, decode_series = 0;  // where its attention is counted, see OpenRequests

  int prompt_length() const { return static_cast<int>(request->prompt.size()); }
};

}  // namespace thresher
