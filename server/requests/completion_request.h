// A generation request as a client wrote it, from either wire: types are checked, ranges are not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "server/requests/attention_mapping.h"

namespace thresher {

using PromptInput = std::variant<std::string, std::vector<std::int64_t>>;

struct ChatInput {
  std::string messages;         // JSON array of objects, content as text, key order kept
  std::string template_kwargs;  // JSON object or empty
  bool add_generation_prompt = true;
  bool continue_final_message = false;
};

struct CompletionRequest {
  std::optional<std::string> model;  // absent: the served one
  std::vector<PromptInput> prompts;  // empty with chat
  std::optional<ChatInput> chat;

  // Absent: the model's default, then the API's.
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<double> presence_penalty, frequency_penalty;
  std::optional<std::int64_t> top_k;
  std::optional<std::int64_t> seed;
  std::vector<std::pair<std::int64_t, double>> logit_bias;

  std::optional<std::int64_t> max_tokens;
  std::string max_tokens_field = "max_tokens";  // the name that the client used
  std::optional<int> default_max_tokens;        // the route's own, capped by the context
  std::int64_t min_tokens = 0;
  std::int64_t n = 1;
  std::int64_t priority = 0;
  bool ignore_eos = false;
  std::vector<std::string> stop;
  std::vector<std::int64_t> stop_token_ids;
  bool include_stop_in_output = false;

  std::optional<std::int64_t> logprobs;
  std::string logprobs_field = "logprobs";
  std::optional<std::int64_t> prompt_logprobs;
  bool echo = false;
  bool return_token_ids = false;
  bool skip_special_tokens = true;
  std::optional<bool> add_special_tokens;  // absent: true for text prompts, false for chats

  AttentionWish attention;
  std::string header_level;  // x-attention-level
  std::string key_level;     // the API key's default
  std::string request_id;    // empty: the server makes one
  std::optional<absl::Time> deadline;
};

}  // namespace thresher
