// A cursor over tokens, with the errors of a parser.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/text/jinja/lexer.h"

namespace thresher::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[position_]; }
  // The token after the current one; the end token if there is none.
  const Token& next() const { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }
  int line() const { return current().line; }

  Token Take() {
    Token token = current();
    if (position_ + 1 < tokens_.size()) ++position_;
    return token;
  }

  bool Is(TokenKind kind) const { return current().kind == kind; }
  bool IsOperator(std::string_view text) const {
    return Is(TokenKind::kOperator) && current().text == text;
  }
  bool IsName(std::string_view text) const {
    return Is(TokenKind::kName) && current().text == text;
  }

  bool SkipOperator(std::string_view text) {
    if (!IsOperator(text)) return false;
    Take();
    return true;
  }
  bool SkipName(std::string_view text) {
    if (!IsName(text)) return false;
    Take();
    return true;
  }
  absl::Status ExpectOperator(std::string_view text) {
    if (SkipOperator(text)) return absl::OkStatus();
    return Error(absl::StrCat("expected '", std::string(text), "', found ", Shown()));
  }
  absl::Status Expect(TokenKind kind, std::string_view what) {
    if (!Is(kind)) {
      return Error(absl::StrCat("expected ", std::string(what), ", found ", Shown()));
    }
    Take();
    return absl::OkStatus();
  }

  // The current token in words.
  std::string Shown() const {
    switch (current().kind) {
      case TokenKind::kEnd:
        return "the end of the template";
      case TokenKind::kVariableEnd:
        return "'}}'";
      case TokenKind::kBlockEnd:
        return "'%}'";
      default:
        return absl::StrCat("'", current().text, "'");
    }
  }

  absl::Status Error(std::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat("line ", line(), ": ", std::string(message)));
  }
  absl::Status Unsupported(std::string_view construct) const {
    return absl::UnimplementedError(
        absl::StrCat("line ", line(), ": ", std::string(construct), " is not supported"));
  }

 private:
  std::vector<Token> tokens_;
  std::size_t position_ = 0;
};

}  // namespace thresher::jinja
