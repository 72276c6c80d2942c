// tokenizer.json: model, added tokens, post-processor and the tokenizer's configuration beside it.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/text/json_fields.h"
#include "engine/text/pipeline_json.h"
#include "engine/text/pipeline_tokenizer.h"
#include "engine/text/tokenizer.h"

namespace thresher {
namespace {

using Json = nlohmann::json;

absl::StatusOr<Json> ParseJson(std::string_view text, std::string_view name) {
  Json document = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (document.is_object()) return document;
  return absl::InvalidArgumentError(absl::StrCat(std::string(name), " is not a JSON object"));
}

absl::Status ReadVocabulary(const JsonPlace& declaration, Vocabulary& vocabulary) {
  if (absl::Status status = declaration.ExpectObject(); !status.ok()) return status;
  for (const auto& [text, id] : declaration.value.items()) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 ||
        id.get<std::int64_t>() >= Vocabulary::kMaxSize) {
      return declaration.Error(
          absl::StrCat("has token '", text, "' with id ", id.dump(), ", which is no id"));
    }
    absl::Status status = vocabulary.Add(text, id.get<TokenId>());
    if (!status.ok()) return declaration.Error(std::string(status.message()));
  }
  return absl::OkStatus();
}

// "a b" or ["a", "b"]; the views point into the document.
absl::StatusOr<BpeModel::Merges> ReadMerges(const JsonPlace& declaration) {
  if (absl::Status status = declaration.ExpectArray(); !status.ok()) return status;
  BpeModel::Merges merges;
  merges.reserve(declaration.value.size());
  for (std::size_t i = 0; i < declaration.value.size(); ++i) {
    const Json& merge = declaration.value[i];
    if (merge.is_string()) {
      const std::string_view text = merge.get_ref<const std::string&>();
      const std::size_t space = text.find(' ');
      if (space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos) {
        merges.emplace_back(text.substr(0, space), text.substr(space + 1));
        continue;
      }
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      merges.emplace_back(merge[0].get_ref<const std::string&>(),
                          merge[1].get_ref<const std::string&>());
      continue;
    }
    return declaration.Element(i).Error("must be two token texts");
  }
  return merges;
}

absl::Status RefuseModelOptions(const JsonPlace& model) {
  const absl::StatusOr<std::string> type = model["type"].String();
  // Old files leave the type out; only BPE has merges.
  if (!model["type"].is_null() && !type.ok()) return type.status();
  if (type.ok() && *type != "BPE") return model["type"].Unknown(*type);
  if (!type.ok() && model["merges"].is_null()) return model["type"].Error("is missing");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const JsonPlace option = model[key];
    if (!option.is_null() && option.value != "") return option.Unknown(option.value.dump());
  }
  const JsonPlace dropout = model["dropout"];
  if (!dropout.is_null() && dropout.value != 0) return dropout.Unknown(dropout.value.dump());
  return absl::OkStatus();
}

absl::StatusOr<BpeOptions> ReadBpeOptions(const JsonPlace& model, const Vocabulary& vocabulary) {
  BpeOptions options;
  for (const auto& [key, option] :
       {std::pair<const char*, bool*>{"fuse_unk", &options.fuse_unknown},
        {"byte_fallback", &options.byte_fallback},
        {"ignore_merges", &options.ignore_merges}}) {
    const absl::StatusOr<bool> value = model[key].BoolOr(false);
    if (!value.ok()) return value.status();
    *option = *value;
  }
  if (const JsonPlace unknown = model["unk_token"]; !unknown.is_null()) {
    const absl::StatusOr<std::string> text = unknown.String();
    if (!text.ok()) return text.status();
    options.unknown = vocabulary.Find(*text);
    if (!options.unknown.has_value()) return unknown.Error("is not in the vocabulary");
  }
  return options;
}

absl::StatusOr<AddedToken> ReadAddedToken(const JsonPlace& declaration) {
  AddedToken token;
  absl::StatusOr<std::string> content = declaration["content"].String();
  if (!content.ok()) return content.status();
  token.content = *std::move(content);
  for (const auto& [key, option] : {std::pair<const char*, bool*>{"special", &token.special},
                                    {"single_word", &token.single_word},
                                    {"lstrip", &token.lstrip},
                                    {"rstrip", &token.rstrip}}) {
    const absl::StatusOr<bool> value = declaration[key].BoolOr(false);
    if (!value.ok()) return value.status();
    *option = *value;
  }
  const absl::StatusOr<bool> normalized = declaration["normalized"].BoolOr(!token.special);
  if (!normalized.ok()) return normalized.status();
  token.normalized = *normalized;
  return token;
}

// Adds a token that is new, or sets the options of one that the model or the file has already.
absl::Status AddToken(AddedToken token, const JsonPlace& place, PipelineParts& parts) {
  if (token.content.empty()) return absl::OkStatus();  // as Hugging Face's tokenizers ignore it
  if (token.id < 0 || token.id >= Vocabulary::kMaxSize) return place.Error("has no valid id");
  const std::optional<TokenId> known = parts.vocabulary.Find(token.content);
  if (known.has_value() && *known != token.id) {
    return place.Error(absl::StrCat("is '", token.content, "' with id ", token.id,
                                    ", which has id ", *known, " already"));
  }
  if (!known.has_value()) {
    absl::Status status = parts.vocabulary.Add(token.content, token.id);
    if (!status.ok()) return place.Error(std::string(status.message()));
  }
  const auto same = std::find_if(parts.added_tokens.begin(), parts.added_tokens.end(),
                                 [&](const AddedToken& other) { return other.id == token.id; });
  if (same == parts.added_tokens.end()) parts.added_tokens.push_back(std::move(token));
  return absl::OkStatus();
}

absl::Status ReadAddedTokens(const JsonPlace& declaration, PipelineParts& parts) {
  if (declaration.is_null()) return absl::OkStatus();
  if (absl::Status status = declaration.ExpectArray(); !status.ok()) return status;
  for (std::size_t i = 0; i < declaration.value.size(); ++i) {
    const JsonPlace place = declaration.Element(i);
    absl::StatusOr<AddedToken> token = ReadAddedToken(place);
    if (!token.ok()) return token.status();
    const absl::StatusOr<std::int64_t> id = place["id"].Int();
    if (!id.ok()) return id.status();
    token->id = static_cast<TokenId>(std::clamp<std::int64_t>(*id, -1, Vocabulary::kMaxSize));
    if (absl::Status status = AddToken(*std::move(token), place, parts); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

// tokenizer_config.json may hold tokens that tokenizer.json lacks, by id.
absl::Status ReadConfigTokens(const JsonPlace& declaration, PipelineParts& parts) {
  if (declaration.is_null()) return absl::OkStatus();
  if (absl::Status status = declaration.ExpectObject(); !status.ok()) return status;
  for (const auto& [key, value] : declaration.value.items()) {
    const JsonPlace place{value, absl::StrCat(declaration.path, ".", key)};
    absl::StatusOr<AddedToken> token = ReadAddedToken(place);
    if (!token.ok()) return token.status();
    int id = -1;
    if (!absl::SimpleAtoi(key, &id)) return place.Error("has a key that is no id");
    token->id = id;
    if (absl::Status status = AddToken(*std::move(token), place, parts); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

// A template's special token, to ids: special_tokens.<name>.ids.
absl::Status AppendTemplateToken(const JsonPlace& special_tokens, const JsonPlace& token,
                                 const Vocabulary& vocabulary, std::vector<TokenId>& ids) {
  const absl::StatusOr<std::string> name = token["id"].String();
  if (!name.ok()) return name.status();
  const JsonPlace declared = special_tokens[name->c_str()]["ids"];
  if (absl::Status status = declared.ExpectArray(); !status.ok()) return status;
  for (std::size_t i = 0; i < declared.value.size(); ++i) {
    const absl::StatusOr<std::int64_t> id = declared.Element(i).Int();
    if (!id.ok()) return id.status();
    if (*id < 0 || *id >= vocabulary.size() || !vocabulary.Has(static_cast<TokenId>(*id))) {
      return declared.Element(i).Error("is no token's id");
    }
    ids.push_back(static_cast<TokenId>(*id));
  }
  return absl::OkStatus();
}

absl::Status ReadTemplate(const JsonPlace& declaration, PipelineParts& parts) {
  const JsonPlace single = declaration["single"];
  if (absl::Status status = single.ExpectArray(); !status.ok()) return status;
  std::vector<TokenId> prefix, suffix;
  bool seen_text = false;
  for (std::size_t i = 0; i < single.value.size(); ++i) {
    const JsonPlace element = single.Element(i);
    if (!element["Sequence"].is_null()) {
      if (seen_text) return element.Unknown("a second Sequence");
      seen_text = true;
      continue;
    }
    absl::Status status =
        AppendTemplateToken(declaration["special_tokens"], element["SpecialToken"],
                            parts.vocabulary, seen_text ? suffix : prefix);
    if (!status.ok()) return status;
  }
  if (!seen_text) return single.Error("has no Sequence");
  // A later template goes around what an earlier one made.
  parts.prefix.insert(parts.prefix.begin(), prefix.begin(), prefix.end());
  parts.suffix.insert(parts.suffix.end(), suffix.begin(), suffix.end());
  return absl::OkStatus();
}

absl::Status ReadPostProcessor(const JsonPlace& declaration, PipelineParts& parts) {
  if (declaration.is_null()) return absl::OkStatus();
  const absl::StatusOr<std::string> type = declaration["type"].String();
  if (!type.ok()) return type.status();
  if (*type == "ByteLevel") return absl::OkStatus();  // changes offsets only
  if (*type == "TemplateProcessing") return ReadTemplate(declaration, parts);
  if (*type != "Sequence") return declaration.Unknown(*type);
  const JsonPlace processors = declaration["processors"];
  if (absl::Status status = processors.ExpectArray(); !status.ok()) return status;
  for (std::size_t i = 0; i < processors.value.size(); ++i) {
    absl::Status status = ReadPostProcessor(processors.Element(i), parts);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// "bos_token": a text, or an object with `content`; a text that is no token is no error there.
absl::StatusOr<std::optional<TokenId>> ReadNamedToken(const JsonPlace& declaration,
                                                      const Vocabulary& vocabulary) {
  if (declaration.is_null()) return std::optional<TokenId>();
  const absl::StatusOr<std::string> text =
      declaration.value.is_object() ? declaration["content"].String() : declaration.String();
  if (!text.ok()) return text.status();
  return vocabulary.Find(*text);
}

absl::Status ReadConfig(std::string_view config_json, PipelineParts& parts) {
  if (config_json.empty()) return absl::OkStatus();
  const absl::StatusOr<Json> config = ParseJson(config_json, "tokenizer_config.json");
  if (!config.ok()) return config.status();
  const JsonPlace root{*config, ""};
  absl::Status status = ReadConfigTokens(root["added_tokens_decoder"], parts);
  if (!status.ok()) return status;
  const auto bos = ReadNamedToken(root["bos_token"], parts.vocabulary);
  if (!bos.ok()) return bos.status();
  const auto eos = ReadNamedToken(root["eos_token"], parts.vocabulary);
  if (!eos.ok()) return eos.status();
  parts.bos = *bos;
  parts.eos = *eos;
  return absl::OkStatus();
}

absl::Status ReadModel(const JsonPlace& model, bool byte_level, PipelineParts& parts) {
  if (absl::Status status = RefuseModelOptions(model); !status.ok()) return status;
  if (absl::Status status = ReadVocabulary(model["vocab"], parts.vocabulary); !status.ok()) {
    return status;
  }
  const absl::StatusOr<BpeModel::Merges> merges = ReadMerges(model["merges"]);
  if (!merges.ok()) return merges.status();
  absl::StatusOr<BpeOptions> options = ReadBpeOptions(model, parts.vocabulary);
  if (!options.ok()) return options.status();
  options->byte_level = byte_level;
  absl::StatusOr<std::unique_ptr<BpeModel>> created =
      BpeModel::Create(parts.vocabulary, *merges, *options);
  if (!created.ok()) return model.Error(std::string(created.status().message()));
  parts.model = *std::move(created);
  return absl::OkStatus();
}

absl::Status ReadTokenizer(const JsonPlace& root, std::string_view config_json,
                           PipelineParts& parts) {
  absl::Status status = ReadNormalizers(root["normalizer"], parts.normalizers);
  if (!status.ok()) return status;
  bool byte_level = false;
  status = ReadPreTokenizers(root["pre_tokenizer"], parts.pre_tokenizers, byte_level);
  if (!status.ok()) return status;
  TokenDecoding decoding;
  if (status = ReadDecoder(root["decoder"], decoding); !status.ok()) return status;
  if (status = ReadModel(root["model"], byte_level, parts); !status.ok()) return status;
  if (status = ReadAddedTokens(root["added_tokens"], parts); !status.ok()) return status;
  if (status = ReadConfig(config_json, parts); !status.ok()) return status;
  if (status = ReadPostProcessor(root["post_processor"], parts); !status.ok()) return status;
  SetTokenBytes(decoding, parts);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerFromJson(std::string_view json,
                                                             std::string_view config_json) {
  const absl::StatusOr<Json> document = ParseJson(json, "tokenizer.json");
  if (!document.ok()) return document.status();
  PipelineParts parts;
  absl::Status status = ReadTokenizer({*document, ""}, config_json, parts);
  if (!status.ok()) return status;
  return PipelineTokenizer::Create(std::move(parts));
}

}  // namespace thresher
