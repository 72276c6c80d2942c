// Bytes that begin a code point wait for the next token; everything else goes out at once.
#include "engine/text/detokenizer.h"

#include "engine/text/utf8.h"

namespace thresher {
namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// Appends all of `bytes` that is settled and returns how many bytes at its end are not.
std::size_t AppendSettled(std::string_view bytes, std::string& text) {
  while (!bytes.empty()) {
    const std::size_t num_valid = ValidUtf8Length(bytes);
    text.append(bytes.substr(0, num_valid));
    bytes.remove_prefix(num_valid);
    if (bytes.empty()) break;
    const Utf8Step step = ReadUtf8(bytes);
    if (step.kind == Utf8Kind::kIncomplete) break;
    text.append(kReplacementCharacter);
    bytes.remove_prefix(step.length);
  }
  return bytes.size();
}

}  // namespace

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens,
                         DetokenizerStart start)
    : tokenizer_(tokenizer),
      skip_special_tokens_(skip_special_tokens),
      drops_next_space_(start == DetokenizerStart::kTextStart && tokenizer.strips_leading_space()) {
}

void Detokenizer::Append(TokenId id, std::string& text) {
  if (skip_special_tokens_ && tokenizer_.IsSpecial(id)) return;
  std::string_view bytes = tokenizer_.TokenBytes(id);
  if (bytes.empty()) return;
  if (drops_next_space_) {
    drops_next_space_ = false;
    if (bytes.front() == ' ') bytes.remove_prefix(1);
  }
  if (held_.empty()) {
    held_ = bytes.substr(bytes.size() - AppendSettled(bytes, text));
    return;
  }
  held_.append(bytes);
  const std::size_t num_held = AppendSettled(held_, text);
  held_.erase(0, held_.size() - num_held);
}

void Detokenizer::Finish(std::string& text) {
  if (!held_.empty()) text.append(kReplacementCharacter);
  held_.clear();
}

std::string Decode(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                   bool skip_special_tokens) {
  Detokenizer detokenizer(tokenizer, skip_special_tokens);
  std::string text;
  for (const TokenId id : ids) detokenizer.Append(id, text);
  detokenizer.Finish(text);
  return text;
}

}  // namespace thresher
