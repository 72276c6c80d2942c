// White space, ties and unknown pieces follow SentencePiece (src/normalizer.cc, src/bpe_model.cc,
// src/sentencepiece_processor.cc).
#include "engine/text/sentencepiece_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/text/text_check.h"
#include "engine/text/token_decoding.h"
#include "engine/text/utf8.h"

namespace thresher {
namespace {

constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581

std::string SymbolsToSpaces(std::string_view text) {
  std::string out;
  while (true) {
    const std::size_t symbol = text.find(kSpaceSymbol);
    out.append(text.substr(0, symbol));
    if (symbol == std::string_view::npos) return out;
    out.push_back(' ');
    text.remove_prefix(symbol + kSpaceSymbol.size());
  }
}

}  // namespace

struct SentencePieceTokenizer::Rule {
  const SentencePieceTokenizer& tokenizer;
  std::string_view text;

  bool Find(const MergeSymbol& left, const MergeSymbol& right, std::uint32_t& rank,
            TokenId& merged) const {
    const auto length = static_cast<std::size_t>(right.end - left.begin);
    if (left.frozen || right.frozen || length > tokenizer.longest_piece_) return false;
    const std::optional<TokenId> id = tokenizer.FindMergeable(text.substr(left.begin, length));
    if (!id.has_value()) return false;
    rank = tokenizer.ranks_[*id];
    merged = *id;
    return true;
  }
};

absl::StatusOr<std::unique_ptr<Tokenizer>> SentencePieceTokenizer::Create(SentencePieceSpec spec) {
  std::unique_ptr<SentencePieceTokenizer> tokenizer(new SentencePieceTokenizer(std::move(spec)));
  if (absl::Status status = tokenizer->Init(); !status.ok()) return status;
  return tokenizer;
}

absl::Status SentencePieceTokenizer::Init() {
  byte_tokens_.fill(-1);
  std::vector<AddedToken> specials;
  for (std::size_t i = 0; i < spec_.pieces.size(); ++i) {
    const SentencePiece& piece = spec_.pieces[i];
    const auto id = static_cast<TokenId>(i);
    absl::Status status = piece.text.empty() ? vocabulary_.AddHidden(piece.text, id)
                                             : vocabulary_.Add(piece.text, id);
    if (!status.ok()) return status;
    // Scores are sorted, and NaN has no place in an order.
    if (std::isnan(piece.score)) {
      return absl::InvalidArgumentError(absl::StrCat("piece ", id, " has a score that is NaN"));
    }
    longest_piece_ = std::max(longest_piece_, piece.text.size());
    token_bytes_.push_back(IsSpecialType(piece.type) ? piece.text : SymbolsToSpaces(piece.text));
    if (IsSpecialType(piece.type)) {
      specials.push_back({.content = piece.text, .id = id, .special = true});
    }
    if (piece.type == TokenType::kUnknown && unknown_ < 0) unknown_ = id;
    if (piece.type == TokenType::kUserDefined) user_defined_.Insert(piece.text, id);
    if (piece.type == TokenType::kByte) {
      const int byte = ByteOfFallbackToken(piece.text);
      if (byte < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("piece ", id, " is a byte, but is written '", piece.text, "'"));
      }
      byte_tokens_[byte] = id;
      token_bytes_.back() = std::string(1, static_cast<char>(byte));
    }
  }
  if (unknown_ < 0) return absl::InvalidArgumentError("no piece has type UNKNOWN");
  const auto no_token = std::find(byte_tokens_.begin(), byte_tokens_.end(), -1);
  if (spec_.byte_fallback && no_token != byte_tokens_.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "byte_fallback is set, but byte ", no_token - byte_tokens_.begin(), " has no piece"));
  }
  RankScores();
  special_matcher_ = std::make_unique<AddedTokenMatcher>(std::move(specials));
  return absl::OkStatus();
}

void SentencePieceTokenizer::RankScores() {
  std::vector<float> scores;
  for (const SentencePiece& piece : spec_.pieces) scores.push_back(piece.score);
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  for (const SentencePiece& piece : spec_.pieces) {
    const auto place =
        std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>());
    ranks_.push_back(static_cast<std::uint32_t>(place - scores.begin()));
  }
}

// Pieces that merging may make: neither special nor bytes nor unused.
std::optional<TokenId> SentencePieceTokenizer::FindMergeable(std::string_view text) const {
  const std::optional<TokenId> id = vocabulary_.Find(text);
  if (!id.has_value()) return std::nullopt;
  const TokenType type = spec_.pieces[*id].type;
  return type == TokenType::kNormal || type == TokenType::kUserDefined ? id : std::nullopt;
}

std::string SentencePieceTokenizer::Normalize(std::string_view text) const {
  const bool removes = spec_.remove_extra_whitespaces;
  if (removes) text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  std::string normalized;
  if (text.empty()) return normalized;
  normalized.reserve(text.size() + text.size() / 2);
  if (spec_.add_dummy_prefix) normalized.append(kSpaceSymbol);
  bool after_space = removes;
  for (std::size_t at = 0; at < text.size();) {
    // A user-defined symbol keeps the spaces within it.
    const ByteTrie::Match symbol = user_defined_.LongestAt(text, at);
    const std::size_t end = symbol.value >= 0 ? symbol.end : at + ReadUtf8(text.substr(at)).length;
    std::string_view part = text.substr(at, end - at);
    at = end;
    while (after_space && part.starts_with(' ')) part.remove_prefix(1);
    if (part.empty()) continue;
    for (const char byte : part) {
      byte == ' ' ? normalized.append(kSpaceSymbol) : normalized.append(1, byte);
    }
    after_space = removes && part.ends_with(' ');
  }
  while (removes && std::string_view(normalized).ends_with(kSpaceSymbol)) {
    normalized.resize(normalized.size() - kSpaceSymbol.size());
  }
  return normalized;
}

void SentencePieceTokenizer::EncodeText(std::string_view text, MergeScratch& scratch,
                                        std::vector<TokenId>& ids) const {
  const std::string normalized = Normalize(text);
  const std::string_view view = normalized;
  scratch.Clear();
  for (std::size_t at = 0; at < view.size();) {
    const ByteTrie::Match symbol = user_defined_.LongestAt(view, at);
    const bool frozen = symbol.value >= 0;
    const std::size_t end = frozen ? symbol.end : at + ReadUtf8(view.substr(at)).length;
    const TokenId id =
        frozen ? symbol.value : FindMergeable(view.substr(at, end - at)).value_or(-1);
    scratch.AddSymbol(id, static_cast<std::int32_t>(at), static_cast<std::int32_t>(end), frozen);
    at = end;
  }
  if (scratch.symbols.empty()) return;
  MergeSymbols(Rule{*this, view}, scratch);
  bool after_unknown = false;
  for (std::int32_t i = 0; i >= 0; i = scratch.symbols[i].next) {
    const MergeSymbol& symbol = scratch.symbols[i];
    const bool unknown = symbol.id < 0;
    if (!unknown) {
      ids.push_back(symbol.id);
    } else if (spec_.byte_fallback) {
      for (std::int32_t at = symbol.begin; at < symbol.end; ++at) {
        ids.push_back(byte_tokens_[static_cast<unsigned char>(view[at])]);
      }
    } else if (!after_unknown) {
      ids.push_back(unknown_);
    }
    after_unknown = unknown;
  }
}

absl::Status SentencePieceTokenizer::Encode(std::string_view text, const EncodeOptions& options,
                                            std::vector<TokenId>& ids) const {
  if (absl::Status status = CheckText(text); !status.ok()) return status;
  if (options.add_special_tokens) {
    ids.insert(ids.end(), spec_.prefix.begin(), spec_.prefix.end());
  }
  MergeScratch scratch;
  std::vector<TextSegment> segments;
  special_matcher_->Find(text, options.parse_special_tokens, segments);
  for (const TextSegment& segment : segments) {
    if (segment.token >= 0) {
      ids.push_back(segment.token);
    } else {
      EncodeText(text.substr(segment.begin, segment.end - segment.begin), scratch, ids);
    }
  }
  if (options.add_special_tokens) {
    ids.insert(ids.end(), spec_.suffix.begin(), spec_.suffix.end());
  }
  return absl::OkStatus();
}

std::string_view SentencePieceTokenizer::TokenBytes(TokenId id) const {
  if (id < 0 || id >= static_cast<TokenId>(token_bytes_.size())) return {};
  return token_bytes_[id];
}

bool SentencePieceTokenizer::IsSpecial(TokenId id) const {
  return id >= 0 && id < vocabulary_.size() && IsSpecialType(spec_.pieces[id].type);
}

}  // namespace thresher
