// The two places a SentencePiece model comes from: its own file, and a GGUF file.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/gguf_file.h"
#include "engine/text/gguf_tokens.h"
#include "engine/text/json_fields.h"
#include "engine/text/sentencepiece_spec.h"
#include "engine/text/sentencepiece_tokenizer.h"
#include "engine/text/tokenizer.h"

namespace thresher {
namespace {

// tokenizer_config.json: whether to add beginning and end, and tokens the model must then have.
absl::Status ReadConfig(std::string_view config_json, SentencePieceSpec& spec) {
  bool add_bos = true, add_eos = false;
  if (!config_json.empty()) {
    const auto config = nlohmann::json::parse(config_json.begin(), config_json.end(), nullptr,
                                              /*allow_exceptions=*/false);
    if (!config.is_object()) {
      return absl::InvalidArgumentError("tokenizer_config.json is not a JSON object");
    }
    const JsonPlace root{config, ""};
    const absl::StatusOr<bool> bos = root["add_bos_token"].BoolOr(add_bos);
    if (!bos.ok()) return bos.status();
    const absl::StatusOr<bool> eos = root["add_eos_token"].BoolOr(add_eos);
    if (!eos.ok()) return eos.status();
    add_bos = *bos;
    add_eos = *eos;
    const JsonPlace added = root["added_tokens_decoder"];
    if (!added.is_null() && !added.value.is_object()) return added.Error("must be an object");
    for (const auto& [key, token] : added.value.items()) {
      const JsonPlace place{token, absl::StrCat(added.path, ".", key)};
      const absl::StatusOr<std::string> content = place["content"].String();
      if (!content.ok()) return content.status();
      const auto has_text = [&](const SentencePiece& piece) { return piece.text == *content; };
      if (std::none_of(spec.pieces.begin(), spec.pieces.end(), has_text)) {
        return place.Unknown(absl::StrCat("token '", *content, "' outside the model"));
      }
    }
  }
  if (add_bos && spec.bos.has_value()) spec.prefix.push_back(*spec.bos);
  if (add_eos && spec.eos.has_value()) spec.suffix.push_back(*spec.eos);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerFromSentencePiece(
    std::string_view model, std::string_view config_json) {
  absl::StatusOr<SentencePieceSpec> spec = ParseSentencePieceModel(model);
  if (!spec.ok()) return spec.status();
  if (absl::Status status = ReadConfig(config_json, *spec); !status.ok()) return status;
  return SentencePieceTokenizer::Create(*std::move(spec));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> SentencePieceFromGguf(const GgufFile& file) {
  const absl::StatusOr<GgufTokens> tokens = ReadGgufTokens(file, /*adds_bos_by_default=*/true);
  if (!tokens.ok()) return tokens.status();
  const std::optional<std::vector<float>> scores = file.Floats("tokenizer.ggml.scores");
  if (!scores.has_value() || scores->size() != tokens->texts.size()) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.scores must be an array of ",
                                                   tokens->texts.size(), " floats, one a token"));
  }
  SentencePieceSpec spec;
  std::size_t num_bytes = 0;
  for (std::size_t i = 0; i < tokens->texts.size(); ++i) {
    spec.pieces.push_back({std::string(tokens->texts[i]), (*scores)[i], tokens->types[i]});
    if (tokens->types[i] == TokenType::kByte) ++num_bytes;
  }
  // The format has no key for it: a vocabulary with all bytes was trained with byte fallback.
  spec.byte_fallback = num_bytes == 256;
  spec.add_dummy_prefix = file.Int("tokenizer.ggml.add_space_prefix").value_or(1) != 0;
  spec.remove_extra_whitespaces =
      file.Int("tokenizer.ggml.remove_extra_whitespaces").value_or(0) != 0;
  spec.bos = tokens->bos;
  spec.eos = tokens->eos;
  spec.prefix = tokens->prefix;
  spec.suffix = tokens->suffix;
  return SentencePieceTokenizer::Create(std::move(spec));
}

}  // namespace thresher
