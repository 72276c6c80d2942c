// A client's request to the engine's: checks every range, applies defaults, makes token ids. Both
// wires use it, so they agree.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/request.h"
#include "engine/text/detokenizer.h"
#include "server/requests/completion_request.h"
#include "server/requests/served_model.h"

namespace thresher {

// How the answer is to look; the engine does not know of it.
struct OutputOptions {
  std::vector<std::string> stop;
  bool include_stop_in_output = false;
  int min_tokens = 0;  // no stop string ends a choice before it
  bool echo = false;
  bool return_token_ids = false;
  bool skip_special_tokens = true;
  // A completion goes on from its prompt; a chat's answer is a text of its own, unless it goes on
  // from the last message.
  DetokenizerStart start = DetokenizerStart::kAfterPrompt;
  bool logprobs = false;         // of generated tokens
  bool prompt_logprobs = false;  // asked for as such, not through echo
};

struct MappedRequest {
  std::string request_id;
  std::vector<GenerationRequest> requests;  // one a prompt
  std::vector<std::string> echo_texts;      // one a prompt, with echo
  OutputOptions output;
};

// InvalidArgument naming the field, its value and the limit, with code context_length_exceeded if
// the prompt is too long; NotFound for the model. Costs a tokenisation: not for an I/O thread.
absl::StatusOr<MappedRequest> MapRequest(CompletionRequest request, const ServedModel& model,
                                         absl::Time now);

// "cmpl-" and 24 random hexadecimal digits.
std::string MakeRequestId(std::string_view prefix);

}  // namespace thresher
