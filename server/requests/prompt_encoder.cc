#include "server/requests/prompt_encoder.h"

#include <algorithm>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/requests/wire_error.h"

namespace thresher {
namespace {

// U+FDD0, a noncharacter that no text means, marks a guarded text in the messages: mark, index of
// the control text, mark. A mark in the client's own text is guarded like a control text.
constexpr std::string_view kMark = "\xEF\xB7\x90";

// Replaces every control text in JSON text. No tokenizer has a control text with a character that
// JSON escapes, so a plain search finds them all.
std::string Guard(std::string_view text, const std::vector<std::string>& controls) {
  std::string guarded;
  guarded.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    std::size_t found = controls.size();
    for (std::size_t c = 0; c < controls.size() && found == controls.size(); ++c) {
      if (text.compare(i, controls[c].size(), controls[c]) == 0) found = c;
    }
    if (found == controls.size()) {
      guarded += text[i++];
      continue;
    }
    absl::StrAppend(&guarded, std::string(kMark), found, std::string(kMark));
    i += controls[found].size();
  }
  return guarded;
}

// One part of a rendered prompt: the template's own text, or a guarded one.
struct Part {
  std::string_view text;
  bool guarded = false;
};

std::vector<Part> Split(std::string_view rendered, const std::vector<std::string>& controls) {
  std::vector<Part> parts;
  std::size_t begin = 0;
  while (begin <= rendered.size()) {
    const std::size_t mark = rendered.find(kMark, begin);
    parts.push_back({rendered.substr(begin, mark - begin), false});
    if (mark == std::string_view::npos) break;
    const std::size_t number = mark + kMark.size();
    const std::size_t end = rendered.find(kMark, number);
    std::size_t index = controls.size();
    if (end != std::string_view::npos &&
        absl::SimpleAtoi(std::string(rendered.substr(number, end - number)), &index) &&
        index < controls.size()) {
      parts.push_back({controls[index], true});
      begin = end + kMark.size();
    } else {
      // The template cut the guard in two: what is left of it is plain text.
      begin = number;
    }
  }
  return parts;
}

}  // namespace

PromptEncoder::PromptEncoder(const Tokenizer& tokenizer, const ChatTemplate* chat_template)
    : tokenizer_(tokenizer), chat_template_(chat_template) {
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.IsSpecial(id) && !tokenizer.TokenBytes(id).empty()) {
      control_texts_.emplace_back(tokenizer.TokenBytes(id));
    }
  }
  control_texts_.emplace_back(kMark);
  std::stable_sort(control_texts_.begin(), control_texts_.end(),
                   [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
}

absl::Status PromptEncoder::EncodeText(std::string_view text, bool add_special_tokens,
                                       std::vector<TokenId>& ids) const {
  return tokenizer_.Encode(text, EncodeOptions{.add_special_tokens = add_special_tokens}, ids);
}

absl::Status PromptEncoder::EncodeChat(const ChatInput& chat, bool add_special_tokens,
                                       absl::Time now, std::vector<TokenId>& ids) const {
  if (chat_template_ == nullptr) {
    return InvalidField("messages", "the model has no chat template; use /v1/completions");
  }
  // The list of those that occur at all is short, mostly empty: then nothing is replaced.
  std::vector<std::string> present;
  for (const std::string& control : control_texts_) {
    if (chat.messages.find(control) != std::string::npos ||
        chat.template_kwargs.find(control) != std::string::npos) {
      present.push_back(control);
    }
  }
  ChatTemplateInput input;
  input.messages = present.empty() ? chat.messages : Guard(chat.messages, present);
  input.extra = present.empty() ? chat.template_kwargs : Guard(chat.template_kwargs, present);
  input.add_generation_prompt = chat.add_generation_prompt;
  input.continue_final_message = chat.continue_final_message;
  input.now = now;
  absl::StatusOr<std::string> rendered = chat_template_->Render(input);
  if (!rendered.ok()) {
    if (rendered.status().code() != absl::StatusCode::kInvalidArgument) return rendered.status();
    return InvalidField("messages", std::string(rendered.status().message()));
  }
  EncodeOptions options;
  options.add_special_tokens = add_special_tokens;
  if (present.empty()) return tokenizer_.Encode(*rendered, options, ids);
  for (const Part& part : Split(*rendered, present)) {
    options.parse_special_tokens = !part.guarded;
    if (absl::Status status = tokenizer_.Encode(part.text, options, ids); !status.ok()) {
      return status;
    }
    options.add_special_tokens = false;
  }
  return absl::OkStatus();
}

}  // namespace thresher
