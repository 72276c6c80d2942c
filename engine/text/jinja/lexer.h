// Cuts a chat template into tokens, with trim_blocks and lstrip_blocks on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace thresher::jinja {

enum class TokenKind {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,   // text is the value, escapes resolved
  kInteger,  // text without underscores
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;
  int line;
};

// The last token is kEnd. InvalidArgument naming the line of what is no token, Unimplemented for an
// escape that needs Unicode's names.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace thresher::jinja
