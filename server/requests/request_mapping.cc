#include "server/requests/request_mapping.h"

#include <algorithm>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/request_validation.h"
#include "server/requests/wire_error.h"

namespace thresher {
namespace {

constexpr int kMaxStopStrings = 4;
constexpr std::size_t kMaxStopStringBytes = 1024;
constexpr std::size_t kMaxLogitBiasEntries = 1024;
// Either way. One step of priority is worth many arrivals to the scheduler, so that no client needs
// more steps to stand before or behind all others.
constexpr std::int64_t kMaxPriority = 1000;

constexpr int kMaxInt = std::numeric_limits<std::int32_t>::max();

// For fields that are narrowed here or that the engine does not know; it checks the rest.
absl::Status CheckInteger(std::string_view field, std::int64_t value, std::int64_t low,
                          std::int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(std::string(field), " is ", value, "; it must be from ",
                                          low, " to ", high));
}

// Ids too large for the type are as wrong as those that are only too large for the vocabulary.
absl::Status CheckTokenId(std::string_view field, std::int64_t id, const ServedModel& model) {
  const int vocab_size = model.engine.model_config().vocab_size;
  if (id >= 0 && id < vocab_size) return absl::OkStatus();
  return InvalidField(field,
                      absl::StrCat(std::string(field), " has token id ", id,
                                   ", which is out of the vocabulary: 0 to ", vocab_size - 1));
}

absl::Status MapSampling(const CompletionRequest& request, const ServedModel& model,
                         SamplingParams& sampling) {
  const GenerationDefaults& defaults = model.engine.generation_defaults();
  sampling.temperature = request.temperature.value_or(defaults.temperature.value_or(1));
  sampling.top_p = request.top_p.value_or(defaults.top_p.value_or(1));
  sampling.min_p = request.min_p.value_or(0);
  sampling.repetition_penalty =
      request.repetition_penalty.value_or(defaults.repetition_penalty.value_or(1));
  sampling.presence_penalty = request.presence_penalty.value_or(0);
  sampling.frequency_penalty = request.frequency_penalty.value_or(0);
  const std::int64_t top_k = request.top_k.value_or(defaults.top_k.value_or(0));
  if (absl::Status status = CheckInteger("top_k", top_k, -1, kMaxInt); !status.ok()) {
    return status;
  }
  sampling.top_k = static_cast<int>(top_k);
  // All 64 bits count; the sign is only how the wire writes them.
  if (request.seed.has_value()) sampling.seed = static_cast<std::uint64_t>(*request.seed);
  if (request.logit_bias.size() > kMaxLogitBiasEntries) {
    return InvalidField("logit_bias", absl::StrCat("logit_bias has ", request.logit_bias.size(),
                                                   " entries; at most ", kMaxLogitBiasEntries));
  }
  for (const auto& [id, bias] : request.logit_bias) {
    if (absl::Status status = CheckTokenId("logit_bias", id, model); !status.ok()) return status;
    sampling.logit_bias.emplace_back(static_cast<TokenId>(id), static_cast<float>(bias));
  }
  return absl::OkStatus();
}

absl::Status MapLogprobs(const CompletionRequest& request, SamplingParams& sampling,
                         OutputOptions& output) {
  if (request.logprobs.has_value()) {
    if (absl::Status status =
            CheckInteger(request.logprobs_field, *request.logprobs, 0, kMaxLogprobs);
        !status.ok()) {
      return status;
    }
    sampling.logprobs = static_cast<int>(*request.logprobs);
    if (request.echo) sampling.prompt_logprobs = sampling.logprobs;
    output.logprobs = true;
  }
  if (request.prompt_logprobs.has_value()) {
    if (absl::Status status =
            CheckInteger("prompt_logprobs", *request.prompt_logprobs, 0, kMaxLogprobs);
        !status.ok()) {
      return status;
    }
    sampling.prompt_logprobs =
        std::max(sampling.prompt_logprobs.value_or(0), static_cast<int>(*request.prompt_logprobs));
    output.prompt_logprobs = true;
  }
  return absl::OkStatus();
}

absl::Status MapStops(const CompletionRequest& request, const ServedModel& model,
                      GenerationRequest& result, OutputOptions& output) {
  if (request.stop.size() > kMaxStopStrings) {
    return InvalidField("stop", absl::StrCat("stop has ", request.stop.size(), " strings; at most ",
                                             kMaxStopStrings));
  }
  for (const std::string& stop : request.stop) {
    if (stop.empty()) return InvalidField("stop", "stop holds an empty string");
    if (stop.size() > kMaxStopStringBytes) {
      return InvalidField("stop", absl::StrCat("stop holds a string of ", stop.size(),
                                               " bytes; at most ", kMaxStopStringBytes));
    }
  }
  for (std::int64_t id : request.stop_token_ids) {
    if (absl::Status status = CheckTokenId("stop_token_ids", id, model); !status.ok()) {
      return status;
    }
    result.stop_token_ids.push_back(static_cast<TokenId>(id));
  }
  output.stop = request.stop;
  output.include_stop_in_output = request.include_stop_in_output;
  result.ignore_eos = request.ignore_eos;
  return absl::OkStatus();
}

// How long a prompt's output may be; the engine checks it against the context.
absl::Status MapLength(const CompletionRequest& request, const ServedModel& model,
                       GenerationRequest& result) {
  if (request.max_tokens.has_value()) {
    if (absl::Status status = CheckInteger(request.max_tokens_field, *request.max_tokens,
                                           request.echo ? 0 : 1, kMaxInt);
        !status.ok()) {
      return status;
    }
    result.max_tokens = static_cast<int>(*request.max_tokens);
  } else if (request.default_max_tokens.has_value()) {
    const std::int64_t room =
        model.engine.max_model_len() - static_cast<std::int64_t>(result.prompt.size());
    // A prompt that fills the context still yields one token, but only to a request without a limit
    // of its own: prompt and max_tokens together would not fit.
    if (room > 0) {
      result.max_tokens =
          static_cast<int>(std::min<std::int64_t>(room, *request.default_max_tokens));
    }
  }
  if (absl::Status status = CheckInteger("min_tokens", request.min_tokens, 0, kMaxInt);
      !status.ok()) {
    return status;
  }
  result.min_tokens = static_cast<int>(request.min_tokens);
  // A prompt that is only scored needs a pass over it; asking for its log-probabilities is what
  // makes the engine run one.
  if (result.max_tokens == 0 && !result.sampling.prompt_logprobs.has_value()) {
    result.sampling.prompt_logprobs = 0;
  }
  return absl::OkStatus();
}

// The engine's own checks, before anything is submitted, under the names of this wire.
absl::Status CheckAsEngine(const CompletionRequest& request, const GenerationRequest& result,
                           const ServedModel& model) {
  const RequestLimits limits{.vocab_size = model.engine.model_config().vocab_size,
                             .max_model_len = model.engine.max_model_len(),
                             .attention = &model.engine.attention()};
  absl::Status status = ValidateRequest(result, limits);
  status = RenameField(status, "logprobs", request.logprobs_field);
  status = RenameField(status, "max_tokens", request.max_tokens_field);
  return request.chat.has_value() ? RenameField(status, "prompt", "messages") : status;
}

absl::Status EncodePrompt(const CompletionRequest& request, const PromptInput& prompt,
                          const ServedModel& model, std::vector<TokenId>& ids) {
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    if (absl::Status status = model.encoder.EncodeText(
            "prompt", *text, request.add_special_tokens.value_or(true), ids);
        !status.ok()) {
      return status;
    }
  } else {
    for (std::int64_t id : std::get<std::vector<std::int64_t>>(prompt)) {
      if (absl::Status status = CheckTokenId("prompt", id, model); !status.ok()) return status;
      ids.push_back(static_cast<TokenId>(id));
    }
  }
  if (ids.empty()) return InvalidField("prompt", "prompt has no tokens");
  return absl::OkStatus();
}

}  // namespace

std::string MakeRequestId(std::string_view prefix) {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return absl::StrFormat("%s%016x%08x", std::string(prefix), random(), random() & 0xffffffffu);
}

absl::StatusOr<MappedRequest> MapRequest(CompletionRequest request, const ServedModel& model,
                                         absl::Time now) {
  if (request.model.has_value()) {
    if (absl::Status status = CheckModelName(model, *request.model); !status.ok()) return status;
  }
  const int num_prompts = request.chat.has_value() ? 1 : static_cast<int>(request.prompts.size());
  if (num_prompts == 0) return InvalidField("prompt", "prompt is missing or empty");
  MappedRequest mapped;
  GenerationRequest common;
  if (absl::Status status = CheckInteger("n", request.n, 1, kMaxChoices); !status.ok())
    return status;
  if (request.n * num_prompts > model.limits.max_choices) {
    return InvalidField("n",
                        absl::StrCat(num_prompts, " prompts times n ", request.n,
                                     " are too many choices; at most ", model.limits.max_choices));
  }
  common.n = static_cast<int>(request.n);
  if (absl::Status status = CheckInteger("priority", request.priority, -kMaxPriority, kMaxPriority);
      !status.ok()) {
    return status;
  }
  common.priority = static_cast<int>(request.priority);
  if (absl::Status status = MapSampling(request, model, common.sampling); !status.ok()) {
    return status;
  }
  if (absl::Status status = MapLogprobs(request, common.sampling, mapped.output); !status.ok()) {
    return status;
  }
  if (absl::Status status = MapStops(request, model, common, mapped.output); !status.ok()) {
    return status;
  }
  absl::StatusOr<AttentionChoice> attention =
      ResolveAttention(request.attention, request.header_level, request.key_level, model.levels,
                       model.default_level);
  if (!attention.ok()) return attention.status();
  common.attention = *std::move(attention);
  mapped.output.echo = request.echo;
  mapped.output.return_token_ids = request.return_token_ids;
  mapped.output.skip_special_tokens = request.skip_special_tokens;
  if (request.chat.has_value() && !request.chat->continue_final_message) {
    mapped.output.start = DetokenizerStart::kTextStart;
  }
  mapped.output.min_tokens = static_cast<int>(request.min_tokens);
  absl::Time deadline = now + model.limits.request_timeout;
  if (request.deadline.has_value()) deadline = std::min(deadline, *request.deadline);
  if (deadline != absl::InfiniteFuture()) common.deadline = deadline;
  mapped.request_id = request.request_id.empty()
                          ? MakeRequestId(request.chat.has_value() ? "chatcmpl-" : "cmpl-")
                          : request.request_id;
  for (int i = 0; i < num_prompts; ++i) {
    GenerationRequest one = common;
    one.request_id = num_prompts == 1 ? mapped.request_id : absl::StrCat(mapped.request_id, "-", i);
    absl::Status status;
    if (request.chat.has_value()) {
      status = model.encoder.EncodeChat(*request.chat, request.add_special_tokens.value_or(false),
                                        now, one.prompt);
      if (status.ok() && one.prompt.empty()) {
        status = InvalidField("messages", "messages have no tokens");
      }
    } else {
      status = EncodePrompt(request, request.prompts[i], model, one.prompt);
    }
    if (!status.ok()) return status;
    status = MapLength(request, model, one);
    if (status.ok()) status = CheckAsEngine(request, one, model);
    if (!status.ok()) return status;
    if (request.echo) {
      const auto* text =
          request.chat.has_value() ? nullptr : std::get_if<std::string>(&request.prompts[i]);
      mapped.echo_texts.push_back(text != nullptr ? *text
                                                  : Decode(model.engine.tokenizer(), one.prompt,
                                                           request.skip_special_tokens));
    }
    mapped.requests.push_back(std::move(one));
  }
  return mapped;
}

}  // namespace thresher
