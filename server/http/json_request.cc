#include "server/http/json_request.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/text/excerpt.h"
#include "server/http/json_attention.h"
#include "server/http/json_chat.h"
#include "server/http/json_fields.h"
#include "server/http/json_reader.h"
#include "server/http/json_unsupported.h"
#include "server/requests/wire_error.h"

namespace thresher {
namespace {

using Json = nlohmann::ordered_json;

void ReadStop(JsonFields& fields, std::vector<std::string>& stop) {
  const Json* value = fields.Find("stop");
  if (value == nullptr) return;
  if (value->is_string()) {
    stop.push_back(value->get_ref<const std::string&>());
    return;
  }
  if (!value->is_array()) {
    fields.Fail("stop", absl::StrCat("stop must be a string or an array of strings, not ",
                                     JsonTypeName(*value)));
    return;
  }
  for (const Json& element : *value) {
    if (!element.is_string()) {
      fields.Fail("stop", absl::StrCat("stop must hold strings, not ", JsonTypeName(element)));
      return;
    }
    stop.push_back(element.get_ref<const std::string&>());
  }
}

void ReadLogitBias(JsonFields& fields, std::vector<std::pair<std::int64_t, double>>& bias) {
  const Json* value = fields.Find("logit_bias");
  if (value == nullptr) return;
  if (!value->is_object()) {
    fields.Fail("logit_bias",
                absl::StrCat("logit_bias must be an object, not ", JsonTypeName(*value)));
    return;
  }
  for (const auto& [key, element] : value->items()) {
    std::int64_t id = 0;
    // Only as ids are written: "5" and "05" would be two biases of one token.
    if (!absl::SimpleAtoi(key, &id) || absl::StrCat(id) != key) {
      fields.Fail("logit_bias", absl::StrCat("logit_bias has the key '", Excerpt(key),
                                             "'; keys are token ids in decimal"));
      return;
    }
    if (!element.is_number()) {
      fields.Fail("logit_bias", absl::StrCat("logit_bias[", key, "] must be a number, not ",
                                             JsonTypeName(element)));
      return;
    }
    bias.emplace_back(id, element.get<double>());
  }
}

void ReadStreamOptions(JsonFields& fields, HttpCompletionRequest& result) {
  const Json* value = fields.Find("stream_options");
  if (value == nullptr) return;
  if (!value->is_object()) {
    fields.Fail("stream_options",
                absl::StrCat("stream_options must be an object, not ", JsonTypeName(*value)));
    return;
  }
  if (!result.stream) {
    fields.Fail("stream_options", "stream_options is allowed only with stream: true");
    return;
  }
  JsonFields options(*value, "stream_options.");
  bool obfuscation = false;
  options.Read("include_usage", result.include_usage);
  options.Read("continuous_usage_stats", result.continuous_usage);
  options.Read("include_obfuscation", obfuscation);
  if (obfuscation) {
    options.Fail("include_obfuscation",
                 "stream_options.include_obfuscation is not supported by this server");
  }
  fields.Fail(options.status());
}

void ReadBestOf(JsonFields& fields, std::int64_t n) {
  std::optional<std::int64_t> best_of;
  fields.Read("best_of", best_of);
  if (best_of.has_value() && *best_of != n) {
    fields.Fail("best_of", "best_of is not supported by this server unless it equals n");
  }
}

// Fields that both routes share.
void ReadCommon(const Json& body, JsonFields& fields, HttpCompletionRequest& result) {
  CompletionRequest& request = result.request;
  fields.Read("model", request.model);
  fields.Read("stream", result.stream);
  ReadStreamOptions(fields, result);
  fields.Read("temperature", request.temperature);
  fields.Read("top_p", request.top_p);
  fields.Read("top_k", request.top_k);
  fields.Read("min_p", request.min_p);
  fields.Read("repetition_penalty", request.repetition_penalty);
  fields.Read("presence_penalty", request.presence_penalty);
  fields.Read("frequency_penalty", request.frequency_penalty);
  fields.Read("seed", request.seed);
  ReadLogitBias(fields, request.logit_bias);
  ReadStop(fields, request.stop);
  fields.Read("stop_token_ids", request.stop_token_ids);
  fields.Read("include_stop_str_in_output", request.include_stop_in_output);
  fields.Read("max_tokens", request.max_tokens);
  fields.Read("min_tokens", request.min_tokens);
  fields.Read("ignore_eos", request.ignore_eos);
  fields.Read("n", request.n);
  fields.Read("echo", request.echo);
  fields.Read("prompt_logprobs", request.prompt_logprobs);
  fields.Read("return_token_ids", request.return_token_ids);
  fields.Read("skip_special_tokens", request.skip_special_tokens);
  fields.Read("add_special_tokens", request.add_special_tokens);
  fields.Read("priority", request.priority);
  fields.Read("request_id", request.request_id);
  // Accepted, and of no meaning here: they name a user or a cache of a hosted service. The prefix
  // cache needs no key.
  for (const char* name : {"user", "safety_identifier", "prompt_cache_key"}) {
    std::optional<std::string> unused;
    fields.Read(name, unused);
  }
  ReadBestOf(fields, request.n);
  const auto attention = body.find("attention");
  if (attention != body.end() && fields.status().ok()) {
    absl::StatusOr<AttentionWish> wish = ReadAttention(*attention);
    if (!wish.ok()) return fields.Fail(wish.status());
    request.attention = *std::move(wish);
  }
}

bool ReadIds(const Json& array, std::vector<std::int64_t>& ids) {
  for (const Json& element : array) {
    if (!element.is_number_integer()) return false;
    const bool huge = element.is_number_unsigned() &&
                      element.get<std::uint64_t>() > std::numeric_limits<std::int32_t>::max();
    // Out of every vocabulary; the range check words it.
    ids.push_back(huge ? std::numeric_limits<std::int64_t>::max() : element.get<std::int64_t>());
  }
  return true;
}

// A string, a list of strings, a list of token ids, or a list of such lists.
void ReadPrompt(JsonFields& fields, std::vector<PromptInput>& prompts) {
  constexpr char kForms[] =
      "prompt must be a string, an array of strings, an array of token ids or an array of such "
      "arrays";
  const Json* value = fields.Find("prompt");
  if (value == nullptr) return fields.Fail("prompt", "prompt is missing");
  if (value->is_string()) {
    prompts.emplace_back(value->get_ref<const std::string&>());
    return;
  }
  if (!value->is_array()) return fields.Fail("prompt", kForms);
  if (value->empty()) return fields.Fail("prompt", "prompt is empty");
  if (value->front().is_number()) {
    std::vector<std::int64_t> ids;
    if (!ReadIds(*value, ids)) return fields.Fail("prompt", kForms);
    prompts.emplace_back(std::move(ids));
    return;
  }
  for (const Json& element : *value) {
    if (element.type() != value->front().type()) return fields.Fail("prompt", kForms);
    if (element.is_string()) {
      prompts.emplace_back(element.get_ref<const std::string&>());
    } else {
      std::vector<std::int64_t> ids;
      if (!element.is_array() || !ReadIds(element, ids)) return fields.Fail("prompt", kForms);
      prompts.emplace_back(std::move(ids));
    }
  }
}

void ReadChatLogprobs(JsonFields& fields, CompletionRequest& request) {
  bool logprobs = false;
  std::optional<std::int64_t> top;
  fields.Read("logprobs", logprobs);
  fields.Read("top_logprobs", top);
  request.logprobs_field = "top_logprobs";
  if (logprobs) {
    request.logprobs = top.value_or(0);
  } else if (top.has_value()) {
    fields.Fail("top_logprobs", "top_logprobs is allowed only with logprobs: true");
  }
}

}  // namespace

absl::StatusOr<HttpCompletionRequest> ReadCompletionBody(std::string_view body, int max_depth) {
  absl::StatusOr<Json> document = ParseJsonObject(body, max_depth);
  if (!document.ok()) return document.status();
  HttpCompletionRequest result;
  JsonFields fields(*document, "");
  ReadCommon(*document, fields, result);
  ReadPrompt(fields, result.request.prompts);
  fields.Read("logprobs", result.request.logprobs);
  result.request.default_max_tokens = 16;
  RefuseUnsupported(BodyKind::kCompletion, fields);
  if (!fields.status().ok()) return fields.status();
  return result;
}

absl::StatusOr<HttpCompletionRequest> ReadChatBody(std::string_view body, int max_depth) {
  absl::StatusOr<Json> document = ParseJsonObject(body, max_depth);
  if (!document.ok()) return document.status();
  HttpCompletionRequest result;
  JsonFields fields(*document, "");
  ReadCommon(*document, fields, result);
  std::optional<std::int64_t> max_completion_tokens;
  fields.Read("max_completion_tokens", max_completion_tokens);
  if (max_completion_tokens.has_value()) {
    result.request.max_tokens = max_completion_tokens;
    result.request.max_tokens_field = "max_completion_tokens";
  }
  ReadChatLogprobs(fields, result.request);
  RefuseUnsupported(BodyKind::kChat, fields);
  result.request.chat.emplace();
  ReadChatInput(*document, max_depth, fields, *result.request.chat);
  if (!fields.status().ok()) return fields.status();
  return result;
}

absl::StatusOr<AttentionWish> ReadAttentionText(std::string_view text) {
  constexpr int kMaxDepth = 8;
  if (text.empty() || text.front() != '{') return ReadAttention(Json(std::string(text)));
  absl::StatusOr<Json> document = ParseJson(text, kMaxDepth);
  if (!document.ok()) return document.status();
  return ReadAttention(*document);
}

}  // namespace thresher
