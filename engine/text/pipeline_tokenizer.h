// A tokenizer made of steps, as Hugging Face's tokenizer.json describes it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/added_tokens.h"
#include "engine/text/bpe_model.h"
#include "engine/text/normalizer.h"
#include "engine/text/pre_tokenizer.h"
#include "engine/text/token_decoding.h"
#include "engine/text/tokenizer.h"
#include "engine/text/vocabulary.h"

namespace thresher {

struct PipelineParts {
  Vocabulary vocabulary;  // the model's tokens and the added ones
  std::vector<AddedToken> added_tokens;
  std::vector<std::unique_ptr<Normalizer>> normalizers;
  std::vector<std::unique_ptr<PreTokenizer>> pre_tokenizers;
  std::unique_ptr<BpeModel> model;
  std::vector<TokenId> prefix, suffix;   // what add_special_tokens puts around a text
  std::vector<std::string> token_bytes;  // by id
  bool strips_leading_space = false;
  std::optional<TokenId> bos, eos;
};

// Fills token_bytes: an added token is its literal text, the others are decoded.
void SetTokenBytes(const TokenDecoding& decoding, PipelineParts& parts);

// Immutable; any thread.
class PipelineTokenizer final : public Tokenizer {
 public:
  // InvalidArgument if an added token's text is too hard for a normalizer's pattern.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(PipelineParts parts);

  absl::Status Encode(std::string_view text, const EncodeOptions& options,
                      std::vector<TokenId>& ids) const override;
  std::string_view TokenBytes(TokenId id) const override;
  bool strips_leading_space() const override { return parts_.strips_leading_space; }
  bool IsSpecial(TokenId id) const override;
  int vocab_size() const override { return parts_.vocabulary.size(); }
  std::optional<TokenId> bos() const override { return parts_.bos; }
  std::optional<TokenId> eos() const override { return parts_.eos; }
  std::optional<TokenId> Find(std::string_view token) const override {
    return parts_.vocabulary.Find(token);
  }

 private:
  explicit PipelineTokenizer(PipelineParts parts);
  absl::Status Normalize(std::string& text) const;
  absl::Status EncodeText(std::string_view text, const EncodeOptions& options, bool at_text_start,
                          MergeScratch& scratch, std::vector<TokenId>& ids) const;
  absl::Status EncodeNormalized(std::string_view text, bool at_text_start, MergeScratch& scratch,
                                std::vector<TokenId>& ids) const;

  PipelineParts parts_;
  std::unique_ptr<AddedTokenMatcher> raw_matcher_;         // looks at the text as given
  std::unique_ptr<AddedTokenMatcher> normalized_matcher_;  // looks at what the normalizers made
  std::vector<bool> special_;                              // by id
};

}  // namespace thresher
