// White space and word borders follow Hugging Face's tokenizers.
#include "engine/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "engine/text/utf8.h"

namespace thresher {
namespace {

bool EndsWithWord(std::string_view text) {
  return !text.empty() &&
         IsWordCodePoint(ReadUtf8(text.substr(CodePointStart(text, text.size()))).code_point);
}

bool StartsWithWord(std::string_view text) {
  return !text.empty() && IsWordCodePoint(ReadUtf8(text).code_point);
}

// Where the white space that ends at `end` begins, not before `floor`.
std::size_t SpaceBegin(std::string_view text, std::size_t end, std::size_t floor) {
  while (end > floor) {
    const std::size_t start = CodePointStart(text, end);
    if (start < floor || !IsWhiteSpace(ReadUtf8(text.substr(start)).code_point)) break;
    end = start;
  }
  return end;
}

std::size_t SpaceEnd(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    const Utf8Step step = ReadUtf8(text.substr(begin));
    if (!IsWhiteSpace(step.code_point)) break;
    begin += step.length;
  }
  return begin;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    trie_.Insert(tokens_[i].content, static_cast<int>(i));
  }
}

void AddedTokenMatcher::Find(std::string_view text, bool parse_special,
                             std::vector<TextSegment>& segments) const {
  std::size_t done = 0;  // all before it is in a segment
  std::size_t at = 0;
  while (at < text.size()) {
    const ByteTrie::Match match = trie_.LongestAt(text, at);
    if (match.value < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[match.value];
    std::size_t begin = at;
    std::size_t end = match.end;
    at = match.end;
    if (token.special && !parse_special) continue;
    if (token.single_word &&
        (EndsWithWord(text.substr(0, begin)) || StartsWithWord(text.substr(end)))) {
      continue;
    }
    if (token.lstrip) begin = SpaceBegin(text, begin, done);
    if (token.rstrip) end = SpaceEnd(text, end);
    if (done < begin) segments.push_back({done, begin, -1});
    segments.push_back({begin, end, token.id});
    done = std::max(done, end);
  }
  if (done < text.size()) segments.push_back({done, text.size(), -1});
}

}  // namespace thresher
