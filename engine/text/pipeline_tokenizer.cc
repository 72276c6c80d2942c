// The order of the steps: tokens in the raw text, normalizers, tokens in the normalized text,
// pre-tokenizers, model.
#include "engine/text/pipeline_tokenizer.h"

#include <utility>

#include "engine/text/text_check.h"

namespace thresher {
void SetTokenBytes(const TokenDecoding& decoding, PipelineParts& parts) {
  const ByteAlphabet alphabet;
  parts.strips_leading_space = decoding.strips_leading_space;
  parts.token_bytes.resize(parts.vocabulary.size());
  for (TokenId id = 0; id < parts.vocabulary.size(); ++id) {
    parts.token_bytes[id] = DecodeToken(parts.vocabulary.Text(id), decoding, alphabet);
  }
  for (const AddedToken& token : parts.added_tokens) parts.token_bytes[token.id] = token.content;
}

PipelineTokenizer::PipelineTokenizer(PipelineParts parts) : parts_(std::move(parts)) {
  special_.resize(parts_.vocabulary.size());
  for (const AddedToken& token : parts_.added_tokens) {
    if (token.special) special_[token.id] = true;
  }
}

absl::StatusOr<std::unique_ptr<Tokenizer>> PipelineTokenizer::Create(PipelineParts parts) {
  std::unique_ptr<PipelineTokenizer> tokenizer(new PipelineTokenizer(std::move(parts)));
  std::vector<AddedToken> raw, normalized;
  for (const AddedToken& token : tokenizer->parts_.added_tokens) {
    (token.normalized ? normalized : raw).push_back(token);
  }
  for (AddedToken& token : normalized) {
    if (absl::Status status = tokenizer->Normalize(token.content); !status.ok()) return status;
  }
  tokenizer->raw_matcher_ = std::make_unique<AddedTokenMatcher>(std::move(raw));
  tokenizer->normalized_matcher_ = std::make_unique<AddedTokenMatcher>(std::move(normalized));
  return tokenizer;
}

absl::Status PipelineTokenizer::Encode(std::string_view text, const EncodeOptions& options,
                                       std::vector<TokenId>& ids) const {
  if (absl::Status status = CheckText(text); !status.ok()) return status;
  const std::size_t num_before = ids.size();
  if (options.add_special_tokens) {
    ids.insert(ids.end(), parts_.prefix.begin(), parts_.prefix.end());
  }
  MergeScratch scratch;
  std::vector<TextSegment> segments;
  raw_matcher_->Find(text, options.parse_special_tokens, segments);
  for (const TextSegment& segment : segments) {
    if (segment.token >= 0) {
      ids.push_back(segment.token);
      continue;
    }
    absl::Status status = EncodeText(text.substr(segment.begin, segment.end - segment.begin),
                                     options, segment.begin == 0, scratch, ids);
    if (!status.ok()) {
      ids.resize(num_before);
      return status;
    }
  }
  if (options.add_special_tokens) {
    ids.insert(ids.end(), parts_.suffix.begin(), parts_.suffix.end());
  }
  return absl::OkStatus();
}

absl::Status PipelineTokenizer::Normalize(std::string& text) const {
  for (const std::unique_ptr<Normalizer>& normalizer : parts_.normalizers) {
    if (absl::Status status = normalizer->Apply(text); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status PipelineTokenizer::EncodeText(std::string_view text, const EncodeOptions& options,
                                           bool at_text_start, MergeScratch& scratch,
                                           std::vector<TokenId>& ids) const {
  std::string normalized;
  if (!parts_.normalizers.empty()) {
    normalized = text;
    if (absl::Status status = Normalize(normalized); !status.ok()) return status;
    text = normalized;
  }
  if (normalized_matcher_->empty()) return EncodeNormalized(text, at_text_start, scratch, ids);
  std::vector<TextSegment> segments;
  normalized_matcher_->Find(text, options.parse_special_tokens, segments);
  for (const TextSegment& segment : segments) {
    if (segment.token >= 0) {
      ids.push_back(segment.token);
      continue;
    }
    absl::Status status = EncodeNormalized(text.substr(segment.begin, segment.end - segment.begin),
                                           at_text_start && segment.begin == 0, scratch, ids);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status PipelineTokenizer::EncodeNormalized(std::string_view text, bool at_text_start,
                                                 MergeScratch& scratch,
                                                 std::vector<TokenId>& ids) const {
  PieceList pieces(text, at_text_start);
  for (const std::unique_ptr<PreTokenizer>& step : parts_.pre_tokenizers) {
    if (absl::Status status = step->Apply(pieces); !status.ok()) return status;
  }
  for (const TextRange& range : pieces.ranges) {
    parts_.model->Encode(pieces.Piece(range), scratch, ids);
  }
  return absl::OkStatus();
}

std::string_view PipelineTokenizer::TokenBytes(TokenId id) const {
  if (id < 0 || id >= static_cast<TokenId>(parts_.token_bytes.size())) return {};
  return parts_.token_bytes[id];
}

bool PipelineTokenizer::IsSpecial(TokenId id) const {
  return id >= 0 && id < static_cast<TokenId>(special_.size()) && special_[id];
}

}  // namespace thresher
