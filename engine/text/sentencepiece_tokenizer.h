// SentencePiece's byte-pair encoding: the pair whose union has the best score merges first.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/text/added_tokens.h"
#include "engine/text/byte_trie.h"
#include "engine/text/merge_symbols.h"
#include "engine/text/sentencepiece_spec.h"
#include "engine/text/tokenizer.h"
#include "engine/text/vocabulary.h"

namespace thresher {

// Control tokens in a text, if parsed, cut it; what lies between is encoded as a text of its own.
// Immutable; any thread.
class SentencePieceTokenizer final : public Tokenizer {
 public:
  // InvalidArgument if a text is there twice, no piece is the unknown one, or byte_fallback lacks a
  // byte.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(SentencePieceSpec spec);

  absl::Status Encode(std::string_view text, const EncodeOptions& options,
                      std::vector<TokenId>& ids) const override;
  std::string_view TokenBytes(TokenId id) const override;
  bool strips_leading_space() const override {
    return spec_.add_dummy_prefix || spec_.remove_extra_whitespaces;
  }
  bool IsSpecial(TokenId id) const override;
  int vocab_size() const override { return vocabulary_.size(); }
  std::optional<TokenId> bos() const override { return spec_.bos; }
  std::optional<TokenId> eos() const override { return spec_.eos; }
  std::optional<TokenId> Find(std::string_view token) const override {
    return vocabulary_.Find(token);
  }

 private:
  struct Rule;

  explicit SentencePieceTokenizer(SentencePieceSpec spec) : spec_(std::move(spec)) {}
  absl::Status Init();
  void RankScores();
  std::string Normalize(std::string_view text) const;
  void EncodeText(std::string_view text, MergeScratch& scratch, std::vector<TokenId>& ids) const;
  std::optional<TokenId> FindMergeable(std::string_view text) const;

  SentencePieceSpec spec_;
  Vocabulary vocabulary_;
  TokenId unknown_ = -1;
  std::array<TokenId, 256> byte_tokens_{};
  std::vector<std::uint32_t> ranks_;  // by id; equal scores have equal ranks
  std::size_t longest_piece_ = 0;     // in bytes
  ByteTrie user_defined_;
  std::unique_ptr<AddedTokenMatcher> special_matcher_;
  std::vector<std::string> token_bytes_;  // by id
};

}  // namespace thresher
