#include "server/http/openai_response.h"

#include "server/http/json_text.h"
#include "server/http/logprobs_writer.h"
#include "server/requests/wire_error.h"

namespace thresher {
namespace {

void AppendAttentionCounts(const AttentionCounts& counts, std::string& out) {
  const std::pair<const char*, std::int64_t> members[] = {
      {"v_rows_total", counts.value_rows},       {"v_rows_read", counts.value_rows_read},
      {"k_rows_read", counts.key_rows_read},     {"kv_bytes_read", counts.kv_bytes_read},
      {"kv_bytes_dense", counts.kv_bytes_dense}, {"blocks_selected", counts.blocks_selected},
      {"blocks_total", counts.blocks},
  };
  for (const auto& [name, value] : members) {
    out += ",\"";
    out += name;
    out += "\":";
    AppendJsonInteger(value, out);
  }
  out += ",\"dense_fallbacks\":{";
  bool first = true;
  for (std::size_t i = 0; i < kNumDenseFallbacks; ++i) {
    if (counts.dense_fallbacks[i] == 0) continue;
    if (!first) out += ',';
    first = false;
    AppendJsonString(kDenseFallbackNames[i], out);
    out += ':';
    AppendJsonInteger(counts.dense_fallbacks[i], out);
  }
  out += '}';
}

void AppendUsage(const StreamUsage& usage, std::string& out) {
  out += "{\"prompt_tokens\":";
  AppendJsonInteger(usage.prompt_tokens, out);
  out += ",\"completion_tokens\":";
  AppendJsonInteger(usage.completion_tokens, out);
  out += ",\"total_tokens\":";
  AppendJsonInteger(std::int64_t{usage.prompt_tokens} + usage.completion_tokens, out);
  out += ",\"prompt_tokens_details\":{\"cached_tokens\":";
  AppendJsonInteger(usage.cached_tokens, out);
  out += "},\"completion_tokens_details\":{\"reasoning_tokens\":0}";
  out += ",\"attention_details\":{\"prefill_policy\":";
  AppendJsonString(usage.prefill_policy, out);
  out += ",\"decode_policy\":";
  AppendJsonString(usage.decode_policy, out);
  if (usage.k.has_value()) {
    out += ",\"k\":";
    AppendJsonInteger(*usage.k, out);
  }
  AppendAttentionCounts(usage.attention, out);
  out += "}}";
}

void AppendFinish(const ChoiceUpdate& update, std::string& out) {
  if (!update.finish.has_value()) {
    out += ",\"finish_reason\":null";
    return;
  }
  out += *update.finish == FinishReason::kLength ? ",\"finish_reason\":\"length\""
                                                 : ",\"finish_reason\":\"stop\"";
  out += ",\"stop_reason\":";
  if (const auto* text = std::get_if<std::string>(&update.stop_reason)) {
    AppendJsonString(*text, out);
  } else if (const auto* id = std::get_if<TokenId>(&update.stop_reason)) {
    AppendJsonInteger(*id, out);
  } else {
    out += "null";
  }
}

// With echo, the prompt's tokens belong to the log-probabilities of the text.
std::span<const TokenRecord> EchoedTokens(const OutputOptions& output, const ChoiceUpdate& update) {
  if (!output.echo) return {};
  return update.prompt_tokens;
}

void AppendLogprobs(bool chat, const OutputOptions& output, const ChoiceUpdate& update,
                    const Tokenizer& tokenizer, std::string& out) {
  out += ",\"logprobs\":";
  const std::span<const TokenRecord> echoed = EchoedTokens(output, update);
  if (!output.logprobs || (update.tokens.empty() && echoed.empty())) {
    out += "null";
  } else if (chat) {
    AppendChatLogprobs(update.tokens, tokenizer, out);
  } else {
    AppendCompletionLogprobs(echoed, update.tokens, tokenizer, out);
  }
}

const std::vector<TokenId>& PromptOf(const MappedRequest& request, int choice_index) {
  return request.requests[choice_index / request.requests[0].n].prompt;
}

// Members that belong to the prompt: in a chat beside the choices, in a completion in each.
void AppendPromptMembers(const MappedRequest& request, const ChoiceUpdate& update,
                         const Tokenizer& tokenizer, std::string& out) {
  if (request.output.prompt_logprobs) {
    out += ",\"prompt_logprobs\":";
    AppendPromptLogprobs(update.prompt_tokens, tokenizer, out);
  }
  if (request.output.return_token_ids) {
    out += ",\"prompt_token_ids\":";
    AppendTokenIds(PromptOf(request, update.index), out);
  }
}

std::string Opening(const AnswerFormat& format, const char* object) {
  std::string text = "{\"id\":";
  AppendJsonString(format.id, text);
  text += ",\"object\":\"";
  text += object;
  text += "\",\"created\":";
  AppendJsonInteger(format.created, text);
  text += ",\"model\":";
  AppendJsonString(format.model, text);
  text += ",\"choices\":[";
  return text;
}

}  // namespace

EventWriter::EventWriter(const AnswerFormat& format, const MappedRequest& request,
                         const Tokenizer& tokenizer)
    : format_(format), request_(request), tokenizer_(tokenizer) {
  prefix_ = "data: " + Opening(format, format.chat ? "chat.completion.chunk" : "text_completion");
}

void EventWriter::AppendTail(const StreamUsage& usage, std::string& out) const {
  if (format_.continuous_usage) {
    out += ",\"usage\":";
    AppendUsage(usage, out);
  } else if (format_.include_usage) {
    out += ",\"usage\":null";
  }
  out += "}\n\n";
}

void EventWriter::AppendUpdate(const ChoiceUpdate& update, const StreamUsage& usage,
                               std::string& out) const {
  const OutputOptions& output = request_.output;
  if (format_.chat && update.first) {
    out += prefix_;
    out += "{\"index\":";
    AppendJsonInteger(update.index, out);
    out += ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,";
    out += "\"finish_reason\":null}]";
    AppendPromptMembers(request_, update, tokenizer_, out);
    AppendTail(usage, out);
  }
  const bool shows_tokens = (output.logprobs || output.return_token_ids) &&
                            !(update.tokens.empty() && update.prompt_tokens.empty());
  const bool shows_prompt =
      !format_.chat && update.first && (output.prompt_logprobs || output.return_token_ids);
  if (update.text.empty() && !update.finish.has_value() && !shows_tokens && !shows_prompt) return;
  out += prefix_;
  out += "{\"index\":";
  AppendJsonInteger(update.index, out);
  if (!format_.chat) {
    out += ",\"text\":";
    AppendJsonString(update.text, out);
  } else if (update.text.empty() && update.finish.has_value()) {
    out += ",\"delta\":{}";
  } else {
    out += ",\"delta\":{\"content\":";
    AppendJsonString(update.text, out);
    out += '}';
  }
  AppendLogprobs(format_.chat, output, update, tokenizer_, out);
  AppendFinish(update, out);
  if (output.return_token_ids) {
    out += ",\"token_ids\":";
    AppendTokenIds(update.tokens, out);
  }
  if (!format_.chat && update.first) AppendPromptMembers(request_, update, tokenizer_, out);
  out += "}]";
  AppendTail(usage, out);
}

void EventWriter::AppendEnd(const StreamUsage& usage, std::string& out) const {
  if (format_.include_usage) {
    out += prefix_;
    out += "],\"usage\":";
    AppendUsage(usage, out);
    out += "}\n\n";
  }
  out += "data: [DONE]\n\n";
}

AnswerCollector::AnswerCollector(const AnswerFormat& format, const MappedRequest& request,
                                 const Tokenizer& tokenizer, int num_choices)
    : format_(format), request_(request), tokenizer_(tokenizer), choices_(num_choices) {
  for (int i = 0; i < num_choices; ++i) choices_[i].index = i;
}

void AnswerCollector::Add(const ChoiceUpdate& update) {
  ChoiceUpdate& choice = choices_[update.index];
  choice.text += update.text;
  const OutputOptions& output = request_.output;
  if (output.logprobs || output.return_token_ids) {
    choice.tokens.insert(choice.tokens.end(), update.tokens.begin(), update.tokens.end());
  }
  if (!update.prompt_tokens.empty()) choice.prompt_tokens = update.prompt_tokens;
  if (update.finish.has_value()) {
    choice.finish = update.finish;
    choice.stop_reason = update.stop_reason;
  }
}

void AnswerCollector::AppendChoice(const ChoiceUpdate& choice, std::string& out) const {
  out += "{\"index\":";
  AppendJsonInteger(choice.index, out);
  if (format_.chat) {
    out += ",\"message\":{\"role\":\"assistant\",\"content\":";
    AppendJsonString(choice.text, out);
    out += ",\"refusal\":null}";
  } else {
    out += ",\"text\":";
    AppendJsonString(choice.text, out);
  }
  AppendLogprobs(format_.chat, request_.output, choice, tokenizer_, out);
  AppendFinish(choice, out);
  if (request_.output.return_token_ids) {
    out += ",\"token_ids\":";
    AppendTokenIds(choice.tokens, out);
  }
  if (!format_.chat) AppendPromptMembers(request_, choice, tokenizer_, out);
  out += '}';
}

std::string AnswerCollector::Body(const StreamUsage& usage) const {
  std::string body = Opening(format_, format_.chat ? "chat.completion" : "text_completion");
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (i > 0) body += ',';
    AppendChoice(choices_[i], body);
  }
  body += ']';
  if (format_.chat) AppendPromptMembers(request_, choices_[0], tokenizer_, body);
  body += ",\"usage\":";
  AppendUsage(usage, body);
  body += '}';
  return body;
}

std::string ErrorBody(const absl::Status& status) {
  const WireErrorFields fields = DescribeError(status);
  std::string body = "{\"error\":{\"message\":";
  AppendJsonString(fields.message, body);
  body += ",\"type\":";
  AppendJsonString(fields.type, body);
  for (const auto& [name, value] :
       {std::pair<const char*, const std::string&>{"param", fields.param},
        std::pair<const char*, const std::string&>{"code", fields.code}}) {
    body += ",\"";
    body += name;
    body += "\":";
    if (value.empty()) {
      body += "null";
    } else {
      AppendJsonString(value, body);
    }
  }
  body += "}}";
  return body;
}

void AppendErrorEvent(const absl::Status& status, std::string& out) {
  out += "data: ";
  out += ErrorBody(status);
  out += "\n\ndata: [DONE]\n\n";
}

}  // namespace thresher
