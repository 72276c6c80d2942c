#include "engine/text/chat_messages.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/text/jinja/error.h"
#include "engine/text/jinja/json_value.h"
#include "engine/text/jinja/python_text.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher {
namespace {

using jinja::Dict;
using jinja::Failure;
using jinja::SequenceKind;
using jinja::Value;

constexpr std::string_view kReasoningFields[] = {"reasoning_content", "thinking", "reasoning"};

bool IsList(const Value& value) {
  return value.is_sequence() && value.sequence().kind == SequenceKind::kList;
}

Value DictValue(Dict dict) { return Value::Of(std::make_shared<const Dict>(std::move(dict))); }

// A copy of a dict with one value replaced or added.
Value With(const Value& dict, std::string_view key, Value value) {
  Dict copy = dict.dict();
  copy.Set(key, std::move(value));
  return DictValue(std::move(copy));
}

Value ParseCallArguments(const Value& call) {
  if (!call.is_dict()) return call;
  const Value* function = call.dict().Find("function");
  if (function == nullptr || !function->is_dict()) return call;
  const Value* arguments = function->dict().Find("arguments");
  if (arguments == nullptr || !arguments->is_string()) return call;
  absl::StatusOr<Value> parsed = jinja::ParseJson(arguments->text(), "arguments");
  // A model may have written what is no object; the template gets it as it is.
  if (!parsed.ok() || !parsed->is_dict()) return call;
  return With(call, "function", With(*function, "arguments", *std::move(parsed)));
}

absl::StatusOr<Value> ParseToolCalls(const Value& calls) {
  if (!IsList(calls)) return calls;
  std::vector<Value> parsed;
  for (const Value& call : calls.sequence().items) parsed.push_back(ParseCallArguments(call));
  return jinja::MakeSequence(SequenceKind::kList, std::move(parsed));
}

absl::StatusOr<Value> JoinParts(const Value& content, std::string_view place) {
  std::string text;
  bool first = true;
  for (const Value& part : content.sequence().items) {
    const Value* part_text = part.is_dict() ? part.dict().Find("text") : nullptr;
    if (part.is_string()) part_text = &part;
    if (part_text == nullptr || !part_text->is_string()) {
      return Failure(
          std::string(place),
          ".content has a part that is no text, which this model's chat template does not take");
    }
    if (!first) text += '\n';
    first = false;
    text += part_text->text();
  }
  return Value::String(std::move(text));
}

absl::StatusOr<Value> PrepareMessage(const Value& message, std::string_view place,
                                     bool template_walks_content) {
  if (!message.is_dict()) {
    return Failure(std::string(place), " must be an object, not ", jinja::TypeName(message));
  }
  const Value* reasoning = nullptr;
  for (std::string_view field : kReasoningFields) {
    const Value* value = message.dict().Find(field);
    if (reasoning == nullptr && value != nullptr && !value->is_none()) reasoning = value;
  }
  Dict prepared;
  if (reasoning != nullptr) prepared.Set("thinking", *reasoning);
  for (const auto& [key, value] : message.dict().entries()) {
    if (value.is_none()) continue;
    Value kept = value;
    if (key.text() == "tool_calls") {
      JINJA_ASSIGN_OR_RETURN(kept, ParseToolCalls(value));
    } else if (key.text() == "content" && IsList(value) && !template_walks_content) {
      JINJA_ASSIGN_OR_RETURN(kept, JoinParts(value, place));
    }
    prepared.Set(key.text(), std::move(kept));
  }
  if (reasoning != nullptr) prepared.Set("reasoning_content", *reasoning);
  return DictValue(std::move(prepared));
}

// `content` with the mark after its text, which is put in final_text; nullopt if it has none.
absl::StatusOr<Value> MarkContent(const Value& content, std::string& final_text) {
  auto marked = [&](const Value& text) {
    final_text = text.text();
    return Value::String(absl::StrCat(text.text(), std::string(kContinueMark)));
  };
  if (content.is_string()) return marked(content);
  if (IsList(content)) {
    std::vector<Value> parts = content.sequence().items;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      const Value* text = part->is_dict() ? part->dict().Find("text") : nullptr;
      if (text == nullptr || !text->is_string()) continue;
      *part = With(*part, "text", marked(*text));
      return jinja::MakeSequence(SequenceKind::kList, std::move(parts));
    }
  }
  return Failure("continue_final_message is set but the last message has no text to continue");
}

}  // namespace

absl::StatusOr<Value> PrepareMessages(const Value& messages, bool template_walks_content) {
  if (!IsList(messages)) {
    return Failure("messages must be a list, not ", jinja::TypeName(messages));
  }
  std::vector<Value> prepared;
  int index = 0;
  for (const Value& message : messages.sequence().items) {
    std::string place = absl::StrCat("messages[", index++, "]");
    JINJA_ASSIGN_OR_RETURN(Value one, PrepareMessage(message, place, template_walks_content));
    prepared.push_back(std::move(one));
  }
  return jinja::MakeSequence(SequenceKind::kList, std::move(prepared));
}

absl::StatusOr<MarkedMessages> MarkFinalMessage(const Value& messages) {
  std::vector<Value> items = messages.sequence().items;
  const Value* content = items.empty() ? nullptr : items.back().dict().Find("content");
  if (content == nullptr) {
    return Failure("continue_final_message is set but there is no last message with content");
  }
  MarkedMessages marked;
  JINJA_ASSIGN_OR_RETURN(Value with_mark, MarkContent(*content, marked.final_text));
  items.back() = With(items.back(), "content", std::move(with_mark));
  JINJA_ASSIGN_OR_RETURN(marked.messages,
                         jinja::MakeSequence(SequenceKind::kList, std::move(items)));
  return marked;
}

absl::StatusOr<std::string> CutAtMark(std::string prompt, std::string_view final_text) {
  std::string_view bare = jinja::Strip(kContinueMark, std::nullopt);
  std::size_t place = prompt.rfind(bare);
  bool shown = prompt.find(jinja::Strip(final_text, std::nullopt)) != std::string::npos;
  if (place == std::string::npos || !shown) {
    return Failure(
        "continue_final_message is set but the chat template leaves out the last message's text");
  }
  // A template that strips the message has taken the mark's space, and would take the text's.
  bool spacing_kept = prompt.compare(place, kContinueMark.size(), kContinueMark) == 0;
  prompt.resize(place);
  if (spacing_kept) return prompt;
  return std::string(jinja::StripRight(prompt, std::nullopt));
}

}  // namespace thresher
