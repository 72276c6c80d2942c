// What a caller asks of the engine, and what it hears back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/attention/attention_choice.h"
#include "engine/attention/attention_counts.h"
#include "scheduler/ids.h"

namespace thresher {

// Ranges are checked at Submit, which names the field as the wire does (see request_error.h).
struct SamplingParams {
  double temperature = 1;                  // 0 … 2
  double top_p = 1;                        // (0, 1]
  int top_k = 0;                           // 0 or -1: off
  double min_p = 0;                        // [0, 1]
  double repetition_penalty = 1;           // 0.01 … 10
  double presence_penalty = 0;             // −2 … 2
  double frequency_penalty = 0;            // −2 … 2
  std::optional<std::uint64_t> seed = {};  // drawn at submit when absent
  // −100 … 100, ids below the vocabulary size.
  std::vector<std::pair<TokenId, float>> logit_bias = {};
  std::optional<int> logprobs = {};         // top log-probabilities per token, 0 … 20
  std::optional<int> prompt_logprobs = {};  // likewise, for every prompt token but the first
};

// The model's generation defaults have been applied by the caller.
struct GenerationRequest {
  std::string request_id;  // for logs and Abort; unique among open requests; empty: none
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  std::optional<int> max_tokens;  // 0 only with prompt_logprobs or echo: nothing is generated
  int min_tokens = 0;
  bool ignore_eos = false;
  std::vector<TokenId> stop_token_ids;
  int n = 1;  // choices, 1 … 128
  int priority = 0;
  AttentionChoice attention;
  std::optional<absl::Time> deadline;
};

enum class FinishReason { kStop, kLength, kAborted, kError };

struct TokenLogprobs {
  float logprob = 0;
  int rank = 0;
  std::vector<std::pair<TokenId, float>> top;  // most likely first
};

// One step's news of one choice.
struct TokenEvent {
  int choice = 0;
  std::optional<TokenId> token = {};  // absent on an event that only finishes
  std::optional<TokenLogprobs> logprobs = {};
  std::optional<FinishReason> finish = {};  // on the choice's last event
  std::optional<TokenId> stop_token = {};   // the end or stop token, which is not part of the text
  // Non-ok: Cancelled with kAborted (a stalled reader too); DeadlineExceeded, Unavailable,
  // ResourceExhausted (the queue filled up meanwhile) or Internal with kError.
  absl::Status status = {};
};

// One entry for each prompt token; the first has none.
using PromptLogprobs = std::vector<std::optional<TokenLogprobs>>;

struct RequestUsage {
  int prompt_tokens = 0;
  int generated_tokens = 0;  // over all choices
  int cached_tokens = 0;     // prompt tokens that the prefix cache gave the first choice
  std::string prefill_policy = "dense";
  std::string decode_policy = "dense";
  std::optional<int> k;       // of the decode policy, else of the prefill policy, if it has one
  AttentionCounts attention;  // over all choices; rows computed again after a preemption count
};

// Told that streams have news. One call a step for all streams that share the listener.
class StreamListener {
 public:
  virtual ~StreamListener() = default;
  // On the engine thread; must return at once (post to an I/O thread) and destroy no handle. Tags
  // as given to Submit.
  virtual void OnEventsReady(std::span<const std::uint64_t> tags) = 0;
};

// The caller's end of a request; may outlive the engine. Destroying it cancels what still runs and
// ends the calls to its listener: it waits for one that is being made, so it must not happen inside
// OnEventsReady. One consumer thread; Cancel and CancelChoice from any thread.
class RequestHandle {
 public:
  virtual ~RequestHandle() = default;
  // Appends what has come since the last call; never blocks. False once every choice has finished:
  // what the call appended, if anything, was the last.
  virtual bool Poll(std::vector<TokenEvent>& events) = 0;
  // Blocks until Poll would append something or return false, or the time has passed.
  virtual void Wait(absl::Duration timeout) = 0;
  // Open choices end with kAborted and Cancelled.
  virtual void Cancel() = 0;
  // One choice ends, with kStop (its stop string was found), while the others go on. No effect on
  // a choice that has ended or does not exist.
  virtual void CancelChoice(int choice) = 0;
  // Up to the events that have been published; complete once every choice has finished.
  virtual RequestUsage usage() const = 0;
  // There once the first token has come, if prompt_logprobs was asked for.
  virtual const PromptLogprobs* prompt_logprobs() const = 0;
};

}  // namespace thresher
