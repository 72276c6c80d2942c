#include "server/http/token_routes.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "server/http/json_chat.h"
#include "server/http/json_fields.h"
#include "server/http/json_reader.h"
#include "server/http/json_text.h"
#include "server/http/json_unsupported.h"
#include "server/http/logprobs_writer.h"
#include "server/requests/wire_error.h"

namespace thresher {
namespace {

using Json = nlohmann::ordered_json;

absl::Status CheckModel(JsonFields& fields, const ServedModel& model) {
  std::optional<std::string> name;
  fields.Read("model", name);
  if (!fields.status().ok() || !name.has_value()) return fields.status();
  return CheckModelName(model, *name);
}

absl::Status TokenizeChat(const Json& body, JsonFields& fields, const ServedModel& model,
                          std::vector<TokenId>& ids) {
  bool add_special_tokens = false;
  fields.Read("add_special_tokens", add_special_tokens);
  ChatInput chat;
  ReadChatInput(body, model.limits.max_json_depth, fields, chat);
  if (!fields.status().ok()) return fields.status();
  return model.encoder.EncodeChat(chat, add_special_tokens, absl::Now(), ids);
}

absl::Status TokenizeText(JsonFields& fields, const ServedModel& model, std::vector<TokenId>& ids) {
  bool add_special_tokens = true;
  fields.Read("add_special_tokens", add_special_tokens);
  std::optional<std::string> prompt;
  fields.Read("prompt", prompt);
  if (!fields.status().ok()) return fields.status();
  if (!prompt.has_value()) return InvalidField("prompt", "prompt or messages is missing");
  return model.encoder.EncodeText("prompt", *prompt, add_special_tokens, ids);
}

absl::StatusOr<std::string> Tokenize(const HttpRequest& request, const ServedModel& model) {
  absl::StatusOr<Json> body = ParseJsonObject(request.body, model.limits.max_json_depth);
  if (!body.ok()) return body.status();
  JsonFields fields(*body, "");
  if (absl::Status status = CheckModel(fields, model); !status.ok()) return status;
  bool with_strings = false;
  fields.Read("return_token_strs", with_strings);
  std::vector<TokenId> ids;
  RefuseUnsupported(BodyKind::kTokenize, fields);
  const bool chat = fields.Find("messages") != nullptr;
  if (chat && fields.Find("prompt") != nullptr) {
    return InvalidField("prompt", "prompt and messages exclude each other");
  }
  const absl::Status status =
      chat ? TokenizeChat(*body, fields, model, ids) : TokenizeText(fields, model, ids);
  if (!status.ok()) return status;
  std::string answer = "{\"count\":";
  AppendJsonInteger(static_cast<std::int64_t>(ids.size()), answer);
  answer += ",\"max_model_len\":";
  AppendJsonInteger(model.engine.max_model_len(), answer);
  answer += ",\"tokens\":";
  AppendTokenIds(ids, answer);
  answer += ",\"token_strs\":";
  if (with_strings) {
    answer += '[';
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i > 0) answer += ',';
      AppendJsonString(model.engine.tokenizer().TokenBytes(ids[i]), answer);
    }
    answer += ']';
  } else {
    answer += "null";
  }
  answer += '}';
  return answer;
}

absl::StatusOr<std::string> Detokenize(const HttpRequest& request, const ServedModel& model) {
  absl::StatusOr<Json> body = ParseJsonObject(request.body, model.limits.max_json_depth);
  if (!body.ok()) return body.status();
  JsonFields fields(*body, "");
  if (absl::Status status = CheckModel(fields, model); !status.ok()) return status;
  std::vector<std::int64_t> tokens;
  if (fields.Find("tokens") == nullptr) return InvalidField("tokens", "tokens is missing");
  fields.Read("tokens", tokens);
  if (!fields.status().ok()) return fields.status();
  std::vector<TokenId> ids;
  const int vocab_size = model.engine.model_config().vocab_size;
  for (std::int64_t token : tokens) {
    if (token < 0 || token >= vocab_size) {
      return InvalidField(
          "tokens", absl::StrCat("tokens holds ", token, "; ids go from 0 to ", vocab_size - 1));
    }
    ids.push_back(static_cast<TokenId>(token));
  }
  std::string answer = "{\"prompt\":";
  AppendJsonString(Decode(model.engine.tokenizer(), ids, false), answer);
  answer += '}';
  return answer;
}

HttpReply ReplyOf(absl::StatusOr<std::string> body) {
  if (!body.ok()) return ErrorReply(body.status());
  HttpReply reply;
  reply.body = *std::move(body);
  return reply;
}

}  // namespace

HttpReply AnswerTokenize(const HttpRequest& request, ServerContext& context) {
  const absl::StatusOr<const ServedModel*> model = context.state.Admit();
  return model.ok() ? ReplyOf(Tokenize(request, **model)) : ErrorReply(model.status());
}

HttpReply AnswerDetokenize(const HttpRequest& request, ServerContext& context) {
  const absl::StatusOr<const ServedModel*> model = context.state.Admit();
  return model.ok() ? ReplyOf(Detokenize(request, **model)) : ErrorReply(model.status());
}

}  // namespace thresher
