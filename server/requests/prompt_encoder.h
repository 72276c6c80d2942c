// Prompts to token ids: plain texts, token lists, and chats through the model's template.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"
#include "server/requests/completion_request.h"

namespace thresher {

// Immutable after construction; any thread. The tokenizer and the template outlive it.
//
// A control token that a client writes inside a message ("<|im_end|>") stays plain text: only the
// template's own text becomes control tokens.
class PromptEncoder final {
 public:
  PromptEncoder(const Tokenizer& tokenizer, const ChatTemplate* chat_template);

  // InvalidArgument: not UTF-8.
  absl::Status EncodeText(std::string_view text, bool add_special_tokens,
                          std::vector<TokenId>& ids) const;
  // InvalidArgument: the model has no template, or the template refused the messages.
  absl::Status EncodeChat(const ChatInput& chat, bool add_special_tokens, absl::Time now,
                          std::vector<TokenId>& ids) const;

 private:
  const Tokenizer& tokenizer_;
  const ChatTemplate* chat_template_;
  std::vector<std::string> control_texts_;  // longest first
};

}  // namespace thresher
