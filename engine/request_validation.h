// Checks every field of a request before any work is done for it.
#pragma once

#include "absl/status/status.h"
#include "engine/attention/attention_catalog.h"
#include "engine/request.h"

namespace thresher {

struct RequestLimits {
  int vocab_size = 0;
  int max_model_len = 0;  // tokens of prompt and output together
  // What attention is served; null: any that has a name is.
  const AttentionCatalog* attention = nullptr;
};

inline constexpr int kMaxChoices = 128;
inline constexpr int kMaxLogprobs = 20;

// FieldError naming the first bad field, its value and the limit; ContextLengthError for a request
// that is too long. Thread-safe; linear in the prompt.
absl::Status ValidateRequest(const GenerationRequest& request, const RequestLimits& limits);

}  // namespace thresher
