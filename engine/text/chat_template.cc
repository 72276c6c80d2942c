#include "engine/text/chat_template.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/text/chat_messages.h"
#include "engine/text/jinja/error.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/json_value.h"
#include "engine/text/jinja/parser.h"
#include "engine/text/jinja/status_macros.h"
#include "engine/text/utf8.h"

namespace thresher {
namespace {

using jinja::Failure;
using jinja::Value;

class JinjaChatTemplate final : public ChatTemplate {
 public:
  JinjaChatTemplate(jinja::Template parsed, std::string_view bos_token, std::string_view eos_token)
      : template_(std::move(parsed)), bos_token_(bos_token), eos_token_(eos_token) {}

  absl::StatusOr<std::string> Render(const ChatTemplateInput& input) const override {
    if (input.continue_final_message && input.add_generation_prompt) {
      return Failure("continue_final_message and add_generation_prompt exclude each other");
    }
    JINJA_ASSIGN_OR_RETURN(Value messages, jinja::ParseJson(input.messages, "messages"));
    JINJA_ASSIGN_OR_RETURN(messages, PrepareMessages(messages, template_.walks_content));
    MarkedMessages marked;
    if (input.continue_final_message) {
      JINJA_ASSIGN_OR_RETURN(marked, MarkFinalMessage(messages));
      messages = marked.messages;
    }
    JINJA_ASSIGN_OR_RETURN(auto variables, Variables(input, std::move(messages)));
    jinja::Interpreter interpreter(template_, jinja::Limits(),
                                   jinja::Clock{input.now, input.time_zone});
    JINJA_ASSIGN_OR_RETURN(std::string prompt, interpreter.Run(std::move(variables)));
    if (!input.continue_final_message) return prompt;
    return CutAtMark(std::move(prompt), marked.final_text);
  }

 private:
  using Named = std::vector<std::pair<std::string, Value>>;

  absl::StatusOr<Named> Variables(const ChatTemplateInput& input, Value messages) const {
    Value tools = Value::None();
    if (!input.tools.empty()) {
      JINJA_ASSIGN_OR_RETURN(tools, jinja::ParseJson(input.tools, "tools"));
      if (!tools.is_sequence()) return Failure("tools must be a list, not ", TypeName(tools));
      // As with none given: templates ask `if tools`, and some `is not none`.
      if (tools.sequence().items.empty()) tools = Value::None();
    }
    // What the request adds may replace what comes before it, but not the request's own fields.
    Named variables = {{"documents", Value::None()},
                       {"bos_token", Value::String(bos_token_)},
                       {"eos_token", Value::String(eos_token_)}};
    Named fixed = {{"messages", std::move(messages)},
                   {"tools", std::move(tools)},
                   {"add_generation_prompt", Value::Bool(input.add_generation_prompt)}};
    if (!input.extra.empty()) {
      JINJA_ASSIGN_OR_RETURN(Value extra, jinja::ParseJson(input.extra, "chat_template_kwargs"));
      if (!extra.is_dict()) {
        return Failure("chat_template_kwargs must be an object, not ", TypeName(extra));
      }
      for (const auto& [key, value] : extra.dict().entries()) {
        for (const auto& [name, unused] : fixed) {
          if (name == key.text()) return Failure("chat_template_kwargs cannot set '", name, "'");
        }
        variables.emplace_back(key.text(), value);
      }
    }
    variables.insert(variables.end(), fixed.begin(), fixed.end());
    return variables;
  }

  const jinja::Template template_;
  const std::string bos_token_;
  const std::string eos_token_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Parse(std::string_view source,
                                                                  std::string_view bos_token,
                                                                  std::string_view eos_token) {
  for (std::string_view text : {source, bos_token, eos_token}) {
    if (!IsUtf8(text)) return Failure("the chat template or its tokens are not UTF-8");
  }
  absl::StatusOr<jinja::Template> parsed = jinja::Parse(source);
  if (!parsed.ok()) {
    return absl::Status(parsed.status().code(),
                        absl::StrCat("chat template, ", parsed.status().message()));
  }
  return std::unique_ptr<ChatTemplate>(
      std::make_unique<JinjaChatTemplate>(*std::move(parsed), bos_token, eos_token));
}

}  // namespace thresher
