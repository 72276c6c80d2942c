#include "server/http/json_request.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/http/json_attention.h"
#include "server/http/json_fields.h"
#include "server/http/json_messages.h"
#include "server/http/json_reader.h"
#include "server/requests/wire_error.h"

namespace thresher {
namespace {

using Json = nlohmann::ordered_json;

// A field that this server cannot honour. It is refused unless it has the value that asks for
// nothing (or is null), so that no wish is ignored.
struct UnsupportedField {
  const char* name;
  const char* neutral;  // JSON text
};

constexpr UnsupportedField kUnsupportedInBoth[] = {
    {"store", "false"},
};
constexpr UnsupportedField kUnsupportedInCompletions[] = {
    {"suffix", "\"\""},
};
constexpr UnsupportedField kUnsupportedInChat[] = {
    {"tools", "[]"},
    {"tool_choice", "\"none\""},
    {"functions", "[]"},
    {"function_call", "\"none\""},
    {"modalities", "[\"text\"]"},
    {"audio", "null"},
    {"prediction", "null"},
    {"web_search_options", "null"},
    {"moderation", "null"},
    {"reasoning_effort", "\"none\""},
    {"verbosity", "\"medium\""},
    {"response_format", "{\"type\":\"text\"}"},
};

template <std::size_t N>
void RefuseUnsupported(const UnsupportedField (&table)[N], JsonFields& fields) {
  for (const UnsupportedField& field : table) {
    const Json* value = fields.Find(field.name);
    if (value == nullptr || *value == Json::parse(field.neutral, nullptr, false)) continue;
    fields.Fail(field.name, absl::StrCat(field.name, " is not supported by this server"));
  }
}

void ReadSeed(JsonFields& fields, std::optional<std::uint64_t>& seed) {
  const Json* value = fields.Find("seed");
  if (value == nullptr) return;
  if (value->is_number_unsigned()) {
    seed = value->get<std::uint64_t>();
  } else if (value->is_number_integer()) {
    seed = static_cast<std::uint64_t>(value->get<std::int64_t>());
  } else {
    fields.Fail("seed", absl::StrCat("seed must be a 64-bit integer, not ", JsonTypeName(*value)));
  }
}

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
  constexpr std::size_t kMostEntries = 1024;
  const Json* value = fields.Find("logit_bias");
  if (value == nullptr) return;
  if (!value->is_object()) {
    fields.Fail("logit_bias",
                absl::StrCat("logit_bias must be an object, not ", JsonTypeName(*value)));
    return;
  }
  if (value->size() > kMostEntries) {
    fields.Fail("logit_bias",
                absl::StrCat("logit_bias has ", value->size(), " entries; at most ", kMostEntries));
    return;
  }
  for (const auto& [key, element] : value->items()) {
    std::int64_t id = 0;
    if (!absl::SimpleAtoi(key, &id)) {
      fields.Fail("logit_bias", absl::StrCat("logit_bias has the key '", key,
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
  if (!options.status().ok())
    fields.Fail("stream_options", std::string(options.status().message()));
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
  ReadSeed(fields, request.seed);
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
  std::optional<std::string> user;  // accepted; names no one here
  fields.Read("user", user);
  const auto attention = body.find("attention");
  if (attention != body.end() && fields.status().ok()) {
    absl::StatusOr<AttentionWish> wish = ReadAttention(*attention);
    if (wish.ok()) {
      request.attention = *std::move(wish);
    } else {
      const std::string message(wish.status().message());
      fields.Fail(message.substr(0, message.find(' ')), message);
    }
  }
  RefuseUnsupported(kUnsupportedInBoth, fields);
  // A tier other than the one there is.
  const Json* tier = fields.Find("service_tier");
  if (tier != nullptr && *tier != "auto" && *tier != "default") {
    fields.Fail("service_tier", "service_tier must be 'auto' or 'default'");
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

void ReadBestOf(JsonFields& fields, std::int64_t n) {
  std::optional<std::int64_t> best_of;
  fields.Read("best_of", best_of);
  if (best_of.has_value() && *best_of != n) {
    fields.Fail("best_of", "best_of is not supported by this server unless it equals n");
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

void ReadChatInput(const Json& body, int max_depth, JsonFields& fields, ChatInput& chat) {
  fields.Read("add_generation_prompt", chat.add_generation_prompt);
  fields.Read("continue_final_message", chat.continue_final_message);
  if (chat.continue_final_message) {
    // The prompt ends inside the last message, so nothing is opened after it.
    if (body.contains("add_generation_prompt") && chat.add_generation_prompt) {
      fields.Fail("continue_final_message",
                  "continue_final_message and add_generation_prompt exclude each other");
    }
    chat.add_generation_prompt = false;
  }
  if (const Json* kwargs = fields.Find("chat_template_kwargs"); kwargs != nullptr) {
    if (!kwargs->is_object()) {
      fields.Fail(
          "chat_template_kwargs",
          absl::StrCat("chat_template_kwargs must be an object, not ", JsonTypeName(*kwargs)));
    }
    chat.template_kwargs = kwargs->dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  if (!fields.status().ok()) return;
  const Json* messages = fields.Find("messages");
  if (messages == nullptr) return fields.Fail("messages", "messages is missing");
  absl::StatusOr<std::string> normalized = NormalizeMessages(*messages, max_depth);
  if (!normalized.ok()) {
    const std::string message(normalized.status().message());
    return fields.Fail(message.substr(0, message.find(' ')), message);
  }
  chat.messages = *std::move(normalized);
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
  ReadBestOf(fields, result.request.n);
  RefuseUnsupported(kUnsupportedInCompletions, fields);
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
  RefuseUnsupported(kUnsupportedInChat, fields);
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
