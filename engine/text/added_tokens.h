// Finds the tokens that are cut out of a text before anything else looks at it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/byte_trie.h"
#include "scheduler/ids.h"

namespace thresher {

struct AddedToken {
  std::string content;
  TokenId id = -1;
  bool special = false;
  bool single_word = false;  // only between what are no word characters
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool normalized = false;   // looked for in the normalized text, in its normalized form
};

struct TextSegment {
  std::size_t begin, end;
  TokenId token;  // -1: text between tokens, not empty
};

// Immutable; any thread.
class AddedTokenMatcher final {
 public:
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);
  bool empty() const { return tokens_.empty(); }
  // Cuts valid UTF-8 into segments: leftmost token first, the longest of those that begin there.
  // Without parse_special a special token's text is text. Cost: linear in the text and the longest
  // token.
  void Find(std::string_view text, bool parse_special, std::vector<TextSegment>& segments) const;

 private:
  std::vector<AddedToken> tokens_;
  ByteTrie trie_;  // of the contents; values are indices of tokens_
};

}  // namespace thresher
