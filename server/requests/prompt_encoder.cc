#include "server/requests/prompt_encoder.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/requests/wire_error.h"

namespace thresher {
namespace {

// U+FDD0, a noncharacter that no text means, marks a guarded text in the messages: mark, index of
// the control text, mark. A mark in the client's own text is guarded like a control text.
constexpr std::string_view kMark = "\xEF\xB7\x90";

// Replaces every control text in JSON text; false if there is none and `guarded` is the text as it
// was. No tokenizer has a control text with a character that JSON escapes, so that a search of the
// JSON text finds them all.
bool Guard(std::string_view text, const ByteTrie& controls, std::string& guarded) {
  guarded.clear();
  std::size_t copied = 0;
  for (std::size_t i = 0; i < text.size();) {
    const ByteTrie::Match match = controls.LongestAt(text, i);
    if (match.value < 0) {
      ++i;
      continue;
    }
    guarded.append(text.substr(copied, i - copied));
    guarded.append(kMark).append(std::to_string(match.value)).append(kMark);
    i = copied = match.end;
  }
  guarded.append(text.substr(copied));
  return copied > 0;
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

// A prompt within the context has at most so many bytes for each token: those of the longest token.
// No fewer than the floor, since a chat's messages are measured as JSON text, which may need some
// thirty bytes where the template needs three tokens.
std::int64_t MostBytesPerToken(const Tokenizer& tokenizer) {
  constexpr std::size_t kFloor = 64, kCeiling = 512;
  std::size_t longest = kFloor;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    longest = std::max(longest, tokenizer.TokenBytes(id).size());
  }
  return static_cast<std::int64_t>(std::min(longest, kCeiling));
}

}  // namespace

PromptEncoder::PromptEncoder(const Tokenizer& tokenizer, const ChatTemplate* chat_template,
                             int max_model_len)
    : tokenizer_(tokenizer),
      chat_template_(chat_template),
      max_model_len_(max_model_len),
      max_text_bytes_(max_model_len * MostBytesPerToken(tokenizer)) {
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.IsSpecial(id)) control_texts_.emplace_back(tokenizer.TokenBytes(id));
  }
  control_texts_.emplace_back(kMark);
  for (std::size_t i = 0; i < control_texts_.size(); ++i) {
    controls_.Insert(control_texts_[i], static_cast<int>(i));
  }
}

absl::Status PromptEncoder::CheckBytes(std::string_view field, std::size_t bytes,
                                       const char* verb) const {
  if (static_cast<std::int64_t>(bytes) <= max_text_bytes_) return absl::OkStatus();
  return WireError(
      absl::StatusCode::kInvalidArgument, "context_length_exceeded", field,
      absl::StrCat(std::string(field), verb, bytes, " bytes; at most ", max_text_bytes_,
                   " fit this model's maximum context length of ", max_model_len_, " tokens"));
}

absl::Status PromptEncoder::EncodeText(std::string_view field, std::string_view text,
                                       bool add_special_tokens, std::vector<TokenId>& ids) const {
  if (absl::Status status = CheckBytes(field, text.size(), " has "); !status.ok()) return status;
  const EncodeOptions options{.add_special_tokens = add_special_tokens};
  const absl::Status status = tokenizer_.Encode(text, options, ids);
  if (status.code() != absl::StatusCode::kInvalidArgument) return status;
  return InvalidField(field, absl::StrCat(std::string(field), ": ", status.message()));
}

absl::StatusOr<std::string> PromptEncoder::Render(const ChatInput& chat, absl::Time now,
                                                  bool& guarded) const {
  ChatTemplateInput input;
  const bool in_messages = Guard(chat.messages, controls_, input.messages);
  const bool in_extra = Guard(chat.template_kwargs, controls_, input.extra);
  guarded = in_messages || in_extra;
  input.add_generation_prompt = chat.add_generation_prompt;
  input.continue_final_message = chat.continue_final_message;
  input.now = now;
  absl::StatusOr<std::string> rendered = chat_template_->Render(input);
  if (rendered.ok() || rendered.status().code() != absl::StatusCode::kInvalidArgument) {
    return rendered;
  }
  const char* field = "messages";
  if (!input.extra.empty()) {
    // The template does not say which of the two it could not take: it is asked again.
    input.extra.clear();
    if (chat_template_->Render(input).ok()) field = "chat_template_kwargs";
  }
  return InvalidField(field, std::string(rendered.status().message()));
}

absl::Status PromptEncoder::EncodeChat(const ChatInput& chat, bool add_special_tokens,
                                       absl::Time now, std::vector<TokenId>& ids) const {
  if (chat_template_ == nullptr) {
    return InvalidField("messages", "the model has no chat template; use /v1/completions");
  }
  absl::Status status = CheckBytes("messages", chat.messages.size(), " has ");
  if (status.ok())
    status = CheckBytes("chat_template_kwargs", chat.template_kwargs.size(), " has ");
  if (!status.ok()) return status;
  bool guarded = false;
  const absl::StatusOr<std::string> rendered = Render(chat, now, guarded);
  if (!rendered.ok()) return rendered.status();
  std::vector<Part> parts = {{*rendered, false}};
  if (guarded) parts = Split(*rendered, control_texts_);
  std::size_t bytes = 0;
  for (const Part& part : parts) bytes += part.text.size();
  status = CheckBytes("messages", bytes, " makes a prompt of ");
  EncodeOptions options;
  options.add_special_tokens = add_special_tokens;
  for (std::size_t i = 0; i < parts.size() && status.ok(); ++i) {
    options.parse_special_tokens = !parts[i].guarded;
    status = tokenizer_.Encode(parts[i].text, options, ids);
    options.add_special_tokens = false;
  }
  return status;
}

}  // namespace thresher
