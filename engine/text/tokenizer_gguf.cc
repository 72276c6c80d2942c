// The tokenizer inside a GGUF file: which kind, and byte-level BPE. SentencePiece is beside.
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/gguf_file.h"
#include "engine/text/byte_level_patterns.h"
#include "engine/text/gguf_tokens.h"
#include "engine/text/pipeline_tokenizer.h"
#include "engine/text/tokenizer.h"

namespace thresher {
namespace {

absl::Status Unsupported(std::string_view key, std::string_view value) {
  return absl::UnimplementedError(
      absl::StrCat(std::string(key), " '", std::string(value), "' is not supported"));
}

absl::StatusOr<BpeModel::Merges> ReadMerges(const GgufFile& file) {
  const std::optional<std::vector<std::string_view>> texts = file.Strings("tokenizer.ggml.merges");
  if (!texts.has_value()) {
    return absl::InvalidArgumentError("tokenizer.ggml.merges must be an array of strings");
  }
  BpeModel::Merges merges;
  merges.reserve(texts->size());
  for (std::size_t i = 0; i < texts->size(); ++i) {
    const std::string_view text = (*texts)[i];
    // Either side may itself be a space in vocabularies that are not byte-level, never first here.
    const std::size_t space = text.find(' ', 1);
    if (space == std::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer.ggml.merges[", i, "] must be two token texts"));
    }
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return merges;
}

absl::Status ReadSteps(const ByteLevelScheme& scheme, PipelineParts& parts) {
  if (scheme.nfc) parts.normalizers.push_back(MakeNfc());
  for (const std::string_view regex : scheme.patterns) {
    absl::StatusOr<std::unique_ptr<SplitPattern>> pattern = SplitPattern::FromRegex(regex);
    if (!pattern.ok()) return pattern.status();
    parts.pre_tokenizers.push_back(
        MakeSplit(*std::move(pattern), SplitBehavior::kIsolated, /*invert=*/false));
  }
  return absl::OkStatus();
}

// What the model merges by: the plain tokens.
absl::StatusOr<std::unique_ptr<BpeModel>> ReadModel(const GgufFile& file, const GgufTokens& tokens,
                                                    bool ignore_merges) {
  const absl::StatusOr<BpeModel::Merges> merges = ReadMerges(file);
  if (!merges.ok()) return merges.status();
  Vocabulary plain;
  for (std::size_t i = 0; i < tokens.texts.size(); ++i) {
    if (tokens.types[i] != TokenType::kNormal || tokens.texts[i].empty()) continue;
    absl::Status status = plain.Add(tokens.texts[i], static_cast<TokenId>(i));
    if (!status.ok()) return status;
  }
  BpeOptions options;
  options.ignore_merges = ignore_merges;
  return BpeModel::Create(plain, *merges, options);
}

absl::Status ReadByteLevel(const GgufFile& file, PipelineParts& parts) {
  const std::optional<std::string_view> pre = file.String("tokenizer.ggml.pre");
  if (!pre.has_value()) return absl::InvalidArgumentError("tokenizer.ggml.pre is missing");
  const std::optional<ByteLevelScheme> scheme = FindByteLevelScheme(*pre);
  if (!scheme.has_value()) return Unsupported("tokenizer.ggml.pre", *pre);
  if (absl::Status status = ReadSteps(*scheme, parts); !status.ok()) return status;
  absl::StatusOr<GgufTokens> tokens = ReadGgufTokens(file, scheme->adds_bos);
  if (!tokens.ok()) return tokens.status();
  absl::StatusOr<std::unique_ptr<BpeModel>> model = ReadModel(file, *tokens, scheme->ignore_merges);
  if (!model.ok()) return model.status();
  parts.model = *std::move(model);
  for (std::size_t i = 0; i < tokens->texts.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view text = tokens->texts[i];
    absl::Status status =
        text.empty() ? parts.vocabulary.AddHidden(text, id) : parts.vocabulary.Add(text, id);
    if (!status.ok()) return status;
    const bool special = IsSpecialType(tokens->types[i]);
    if (special || tokens->types[i] == TokenType::kUserDefined) {
      parts.added_tokens.push_back({.content = std::string(text), .id = id, .special = special});
    }
  }
  parts.prefix = tokens->prefix;
  parts.suffix = tokens->suffix;
  parts.bos = tokens->bos;
  parts.eos = tokens->eos;
  SetTokenBytes({.byte_level = true}, parts);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerFromGguf(const GgufFile& file) {
  const std::optional<std::string_view> model = file.String("tokenizer.ggml.model");
  if (!model.has_value()) return absl::InvalidArgumentError("tokenizer.ggml.model is missing");
  if (*model == "llama") return SentencePieceFromGguf(file);
  if (*model != "gpt2") return Unsupported("tokenizer.ggml.model", *model);
  PipelineParts parts;
  if (absl::Status status = ReadByteLevel(file, parts); !status.ok()) return status;
  return PipelineTokenizer::Create(std::move(parts));
}

}  // namespace thresher
