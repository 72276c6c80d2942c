// Log-probabilities in the forms of the two OpenAI routes, and prompt log-probabilities.
#pragma once

#include <span>
#include <string>

#include "engine/text/tokenizer.h"
#include "server/requests/completion_stream.h"

namespace thresher {

// {"tokens":[…],"token_logprobs":[…],"top_logprobs":[…],"text_offset":[…]} of both lists in order.
// A token that is no whole text is written as bytes:\xNN…, so that two never look the same.
void AppendCompletionLogprobs(std::span<const TokenRecord> prompt,
                              std::span<const TokenRecord> generated, const Tokenizer& tokenizer,
                              std::string& out);

// {"content":[{"token","logprob","bytes","top_logprobs"}…],"refusal":null}
void AppendChatLogprobs(std::span<const TokenRecord> generated, const Tokenizer& tokenizer,
                        std::string& out);

// [null,{"ID":{"logprob","rank","decoded_token"}…}…]
void AppendPromptLogprobs(std::span<const TokenRecord> prompt, const Tokenizer& tokenizer,
                          std::string& out);

// [1,2,3]
void AppendTokenIds(std::span<const TokenRecord> tokens, std::string& out);
void AppendTokenIds(std::span<const TokenId> tokens, std::string& out);

}  // namespace thresher
