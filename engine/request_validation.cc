#include "engine/request_validation.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/request_error.h"

namespace thresher {
namespace {

constexpr std::size_t kMaxStopTokens = 256;
constexpr std::size_t kMaxRequestIdBytes = 256;

// Written so that NaN fails.
bool InRange(double value, double minimum, double maximum) {
  return value >= minimum && value <= maximum;
}

absl::Status CheckRange(const char* field, double value, double minimum, double maximum) {
  if (InRange(value, minimum, maximum)) return absl::OkStatus();
  return FieldError(field,
                    absl::StrCat("is ", value, "; it must be from ", minimum, " to ", maximum));
}

absl::Status CheckAboveZero(const char* field, double value, double maximum) {
  if (value > 0 && value <= maximum) return absl::OkStatus();
  return FieldError(field,
                    absl::StrCat("is ", value, "; it must be above 0 and at most ", maximum));
}

absl::Status CheckToken(const char* field, TokenId id, int vocab_size) {
  if (id >= 0 && id < vocab_size) return absl::OkStatus();
  return FieldError(field, absl::StrCat("has token id ", id,
                                        ", which is out of the vocabulary: 0 to ", vocab_size - 1));
}

absl::Status ValidateSampling(const SamplingParams& sampling, int vocab_size) {
  absl::Status status = CheckRange("temperature", sampling.temperature, 0, 2);
  if (status.ok()) status = CheckAboveZero("top_p", sampling.top_p, 1);
  if (status.ok() && sampling.top_k < -1) {
    status = FieldError("top_k", absl::StrCat("is ", sampling.top_k,
                                              "; it must be 1 or more, or 0 or -1 for none"));
  }
  if (status.ok()) status = CheckRange("min_p", sampling.min_p, 0, 1);
  if (status.ok()) {
    // Lower ones divide a logit out of the range of f32.
    status = CheckRange("repetition_penalty", sampling.repetition_penalty, 0.01, 10);
  }
  if (status.ok()) status = CheckRange("presence_penalty", sampling.presence_penalty, -2, 2);
  if (status.ok()) status = CheckRange("frequency_penalty", sampling.frequency_penalty, -2, 2);
  if (status.ok() && sampling.logprobs.has_value()) {
    status = CheckRange("logprobs", *sampling.logprobs, 0, kMaxLogprobs);
  }
  if (status.ok() && sampling.prompt_logprobs.has_value()) {
    status = CheckRange("prompt_logprobs", *sampling.prompt_logprobs, 0, kMaxLogprobs);
  }
  for (const auto& [id, bias] : sampling.logit_bias) {
    if (status.ok()) status = CheckToken("logit_bias", id, vocab_size);
    if (status.ok() && !InRange(bias, -100, 100)) {
      status = FieldError("logit_bias", absl::StrCat("of token ", id, " is ", bias,
                                                     "; it must be from -100 to 100"));
    }
  }
  return status;
}

absl::Status ValidateLength(const GenerationRequest& request, int max_model_len) {
  if (request.max_tokens.has_value()) {
    if (*request.max_tokens < 0) {
      return FieldError("max_tokens",
                        absl::StrCat("is ", *request.max_tokens, "; it must be 0 or more"));
    }
    if (*request.max_tokens == 0 && !request.sampling.prompt_logprobs.has_value()) {
      return FieldError("max_tokens",
                        "is 0, which is allowed only with echo or prompt_logprobs; it must be 1 or "
                        "more");
    }
  }
  const std::size_t prompt_tokens = request.prompt.size();
  if (prompt_tokens > static_cast<std::size_t>(max_model_len)) {
    return ContextLengthError("prompt", absl::StrCat("has ", prompt_tokens,
                                                     " tokens; this model's maximum "
                                                     "context length is ",
                                                     max_model_len, " tokens"));
  }
  const std::int64_t total =
      static_cast<std::int64_t>(prompt_tokens) + request.max_tokens.value_or(0);
  if (total > max_model_len) {
    return ContextLengthError("max_tokens",
                              absl::StrCat("is ", *request.max_tokens, " beside a prompt of ",
                                           prompt_tokens, " tokens, ", total,
                                           " in all; this model's maximum context "
                                           "length is ",
                                           max_model_len, " tokens"));
  }
  if (request.min_tokens < 0) {
    return FieldError("min_tokens",
                      absl::StrCat("is ", request.min_tokens, "; it must be 0 or more"));
  }
  if (request.max_tokens.has_value() && request.min_tokens > *request.max_tokens) {
    return FieldError("min_tokens", absl::StrCat("is ", request.min_tokens, "; max_tokens is only ",
                                                 *request.max_tokens));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateRequest(const GenerationRequest& request, const RequestLimits& limits) {
  if (request.request_id.size() > kMaxRequestIdBytes) {
    return FieldError("request_id", absl::StrCat("has ", request.request_id.size(),
                                                 " bytes; at most ", kMaxRequestIdBytes));
  }
  if (request.prompt.empty()) return FieldError("prompt", "is empty; it needs at least one token");
  if (request.n < 1 || request.n > kMaxChoices) {
    return FieldError("n", absl::StrCat("is ", request.n, "; it must be from 1 to ", kMaxChoices));
  }
  // The length first: a prompt of millions is not walked through.
  if (absl::Status status = ValidateLength(request, limits.max_model_len); !status.ok()) {
    return status;
  }
  for (const TokenId id : request.prompt) {
    if (absl::Status status = CheckToken("prompt", id, limits.vocab_size); !status.ok()) {
      return status;
    }
  }
  if (request.stop_token_ids.size() > kMaxStopTokens) {
    return FieldError("stop_token_ids", absl::StrCat("has ", request.stop_token_ids.size(),
                                                     " ids; at most ", kMaxStopTokens));
  }
  for (const TokenId id : request.stop_token_ids) {
    if (absl::Status status = CheckToken("stop_token_ids", id, limits.vocab_size); !status.ok()) {
      return status;
    }
  }
  if (absl::Status status = ValidateSampling(request.sampling, limits.vocab_size); !status.ok()) {
    return status;
  }
  return limits.attention == nullptr ? ValidateAttentionChoice(request.attention)
                                     : limits.attention->Validate(request.attention);
}

}  // namespace thresher
