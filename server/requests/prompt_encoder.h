// Prompts to token ids: plain texts, token lists, and chats through the model's template.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/text/byte_trie.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"
#include "server/requests/completion_request.h"

namespace thresher {

// Immutable after construction; any thread. The tokenizer and the template outlive it.
//
// A control token that a client writes inside a message ("<|im_end|>") stays plain text: only the
// template's own text becomes control tokens.
//
// Every text that a client sends to be tokenised comes through here, and a text that is longer than
// any prompt could be is refused before it costs anything: tokenising one word of a megabyte takes
// a second.
class PromptEncoder final {
 public:
  PromptEncoder(const Tokenizer& tokenizer, const ChatTemplate* chat_template, int max_model_len);

  // What a context of max_model_len tokens can hold at most.
  std::int64_t max_text_bytes() const { return max_text_bytes_; }

  // `field` is the wire's name of the text. InvalidArgument naming it: not UTF-8, or with code
  // context_length_exceeded over max_text_bytes.
  absl::Status EncodeText(std::string_view field, std::string_view text, bool add_special_tokens,
                          std::vector<TokenId>& ids) const;
  // InvalidArgument naming messages or chat_template_kwargs: the model has no template, the
  // template refused them, or they or the prompt are over max_text_bytes.
  absl::Status EncodeChat(const ChatInput& chat, bool add_special_tokens, absl::Time now,
                          std::vector<TokenId>& ids) const;

 private:
  absl::Status CheckBytes(std::string_view field, std::size_t bytes, const char* verb) const;
  absl::StatusOr<std::string> Render(const ChatInput& chat, absl::Time now, bool& guarded) const;

  const Tokenizer& tokenizer_;
  const ChatTemplate* chat_template_;
  int max_model_len_;
  std::int64_t max_text_bytes_;
  std::vector<std::string> control_texts_;
  ByteTrie controls_;  // control_texts_ by index
};

}  // namespace thresher
