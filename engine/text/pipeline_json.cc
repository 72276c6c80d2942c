// One function a kind of step; each reads the options that change ids or refuses them.
#include "engine/text/pipeline_json.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/text/byte_level_patterns.h"

namespace thresher {
namespace {

// {"String": "..."} or {"Regex": "..."}.
absl::StatusOr<std::unique_ptr<SplitPattern>> ReadPattern(const JsonPlace& declaration) {
  if (const JsonPlace regex = declaration["Regex"]; !regex.is_null()) {
    const absl::StatusOr<std::string> text = regex.String();
    if (!text.ok()) return text.status();
    absl::StatusOr<std::unique_ptr<SplitPattern>> pattern = SplitPattern::FromRegex(*text);
    if (pattern.ok()) return pattern;
    return absl::Status(pattern.status().code(),
                        absl::StrCat(regex.path, ": ", pattern.status().message()));
  }
  const absl::StatusOr<std::string> text = declaration["String"].String();
  if (!text.ok()) return text.status();
  if (text->empty()) return declaration["String"].Error("must not be empty");
  return SplitPattern::FromLiteral(*text);
}

absl::StatusOr<SplitBehavior> ReadBehavior(const JsonPlace& declaration) {
  const absl::StatusOr<std::string> name = declaration.String();
  if (!name.ok()) return name.status();
  if (*name == "Removed") return SplitBehavior::kRemoved;
  if (*name == "Isolated") return SplitBehavior::kIsolated;
  if (*name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (*name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (*name == "Contiguous") return SplitBehavior::kContiguous;
  return declaration.Unknown(*name);
}

absl::Status ReadSplit(const JsonPlace& declaration,
                       std::vector<std::unique_ptr<PreTokenizer>>& steps) {
  absl::StatusOr<std::unique_ptr<SplitPattern>> pattern = ReadPattern(declaration["pattern"]);
  if (!pattern.ok()) return pattern.status();
  const absl::StatusOr<SplitBehavior> behavior = ReadBehavior(declaration["behavior"]);
  if (!behavior.ok()) return behavior.status();
  const absl::StatusOr<bool> invert = declaration["invert"].BoolOr(false);
  if (!invert.ok()) return invert.status();
  steps.push_back(MakeSplit(*std::move(pattern), *behavior, *invert));
  return absl::OkStatus();
}

absl::Status AddRegexSplit(std::string_view regex, SplitBehavior behavior,
                           std::vector<std::unique_ptr<PreTokenizer>>& steps) {
  absl::StatusOr<std::unique_ptr<SplitPattern>> pattern = SplitPattern::FromRegex(regex);
  if (!pattern.ok()) return pattern.status();
  steps.push_back(MakeSplit(*std::move(pattern), behavior, /*invert=*/false));
  return absl::OkStatus();
}

absl::Status ReadByteLevel(const JsonPlace& declaration,
                           std::vector<std::unique_ptr<PreTokenizer>>& steps) {
  const absl::StatusOr<bool> add_prefix_space = declaration["add_prefix_space"].BoolOr(true);
  if (!add_prefix_space.ok()) return add_prefix_space.status();
  const absl::StatusOr<bool> use_regex = declaration["use_regex"].BoolOr(true);
  if (!use_regex.ok()) return use_regex.status();
  if (*add_prefix_space) steps.push_back(MakePrefixSpace());
  if (!*use_regex) return absl::OkStatus();
  return AddRegexSplit(kGpt2Pattern, SplitBehavior::kIsolated, steps);
}

struct MetaspaceOptions {
  std::string replacement;
  PrependScheme scheme = PrependScheme::kAlways;
  bool split = true;
};

absl::StatusOr<MetaspaceOptions> ReadMetaspace(const JsonPlace& declaration) {
  MetaspaceOptions options;
  absl::StatusOr<std::string> replacement = declaration["replacement"].String();
  if (!replacement.ok()) return replacement.status();
  if (replacement->empty()) return declaration["replacement"].Error("must not be empty");
  options.replacement = *std::move(replacement);
  // Older files say add_prefix_space, newer ones prepend_scheme.
  const absl::StatusOr<bool> add_prefix = declaration["add_prefix_space"].BoolOr(true);
  if (!add_prefix.ok()) return add_prefix.status();
  if (!*add_prefix) options.scheme = PrependScheme::kNever;
  if (const JsonPlace scheme = declaration["prepend_scheme"]; !scheme.is_null()) {
    const absl::StatusOr<std::string> name = scheme.String();
    if (!name.ok()) return name.status();
    if (*name == "always") {
      options.scheme = PrependScheme::kAlways;
    } else if (*name == "first") {
      options.scheme = PrependScheme::kFirst;
    } else if (*name == "never") {
      options.scheme = PrependScheme::kNever;
    } else {
      return scheme.Unknown(*name);
    }
  }
  const absl::StatusOr<bool> split = declaration["split"].BoolOr(true);
  if (!split.ok()) return split.status();
  options.split = *split;
  return options;
}

// Applies `read` to every element of the array.
template <typename Read>
absl::Status ForEach(const JsonPlace& array, Read read) {
  if (absl::Status status = array.ExpectArray(); !status.ok()) return status;
  for (std::size_t i = 0; i < array.value.size(); ++i) {
    if (absl::Status status = read(array.Element(i)); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Strip after Fuse takes spaces off the front of the whole text.
absl::Status ReadStrip(const JsonPlace& declaration, bool fused, TokenDecoding& decoding) {
  const absl::StatusOr<std::string> content = declaration["content"].String();
  if (!content.ok()) return content.status();
  const absl::StatusOr<std::int64_t> start = declaration["start"].Int();
  if (!start.ok()) return start.status();
  const absl::StatusOr<std::int64_t> stop = declaration["stop"].Int();
  if (!stop.ok()) return stop.status();
  if (*start == 0 && *stop == 0) return absl::OkStatus();
  if (*content != " " || *start != 1 || *stop != 0) {
    return declaration.Unknown("Strip of other than one space at the start");
  }
  if (!fused) return declaration.Unknown("Strip before Fuse");
  decoding.strips_leading_space = true;
  return absl::OkStatus();
}

absl::Status ReadDecoderStep(const JsonPlace& declaration, bool& fused, TokenDecoding& decoding) {
  const absl::StatusOr<std::string> type = declaration["type"].String();
  if (!type.ok()) return type.status();
  if (*type == "Sequence") {
    return ForEach(declaration["decoders"], [&](const JsonPlace& element) {
      return ReadDecoderStep(element, fused, decoding);
    });
  }
  if (fused && *type != "Strip") return declaration.Unknown(absl::StrCat(*type, " after Fuse"));
  if (decoding.byte_level) return declaration.Unknown(absl::StrCat(*type, " after ByteLevel"));
  if (*type == "ByteLevel") {
    decoding.byte_level = true;
  } else if (*type == "ByteFallback") {
    decoding.byte_fallback = true;
  } else if (*type == "Fuse") {
    fused = true;
  } else if (*type == "Strip") {
    return ReadStrip(declaration, fused, decoding);
  } else if (*type == "Metaspace") {
    absl::StatusOr<MetaspaceOptions> options = ReadMetaspace(declaration);
    if (!options.ok()) return options.status();
    decoding.replacements.emplace_back(std::move(options->replacement), " ");
    decoding.strips_leading_space = options->scheme != PrependScheme::kNever;
  } else if (*type == "Replace") {
    const absl::StatusOr<std::string> from = declaration["pattern"]["String"].String();
    if (!from.ok()) return declaration.Unknown("Replace of other than a String");
    const absl::StatusOr<std::string> to = declaration["content"].String();
    if (!to.ok()) return to.status();
    if (from->empty()) return declaration["pattern"].Error("must not be empty");
    decoding.replacements.emplace_back(*from, *to);
  } else {
    return declaration.Unknown(*type);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadNormalizers(const JsonPlace& declaration,
                             std::vector<std::unique_ptr<Normalizer>>& normalizers) {
  if (declaration.is_null()) return absl::OkStatus();
  const absl::StatusOr<std::string> type = declaration["type"].String();
  if (!type.ok()) return type.status();
  if (*type == "Sequence") {
    return ForEach(declaration["normalizers"],
                   [&](const JsonPlace& element) { return ReadNormalizers(element, normalizers); });
  }
  if (*type == "NFC") {
    normalizers.push_back(MakeNfc());
  } else if (*type == "Prepend") {
    absl::StatusOr<std::string> prefix = declaration["prepend"].String();
    if (!prefix.ok()) return prefix.status();
    normalizers.push_back(MakePrepend(*std::move(prefix)));
  } else if (*type == "Replace") {
    absl::StatusOr<std::unique_ptr<SplitPattern>> pattern = ReadPattern(declaration["pattern"]);
    if (!pattern.ok()) return pattern.status();
    absl::StatusOr<std::string> content = declaration["content"].String();
    if (!content.ok()) return content.status();
    normalizers.push_back(MakeReplace(*std::move(pattern), *std::move(content)));
  } else {
    return declaration.Unknown(*type);
  }
  return absl::OkStatus();
}

absl::Status ReadPreTokenizers(const JsonPlace& declaration,
                               std::vector<std::unique_ptr<PreTokenizer>>& steps,
                               bool& byte_level) {
  if (declaration.is_null()) return absl::OkStatus();
  const absl::StatusOr<std::string> type = declaration["type"].String();
  if (!type.ok()) return type.status();
  if (*type == "Sequence") {
    return ForEach(declaration["pretokenizers"], [&](const JsonPlace& element) {
      return ReadPreTokenizers(element, steps, byte_level);
    });
  }
  // After ByteLevel the text is in another alphabet, in which patterns mean something else.
  if (byte_level) return declaration.Unknown(absl::StrCat(*type, " after ByteLevel"));
  if (*type == "ByteLevel") {
    byte_level = true;
    return ReadByteLevel(declaration, steps);
  }
  if (*type == "Split") return ReadSplit(declaration, steps);
  if (*type == "Digits") {
    const absl::StatusOr<bool> individual = declaration["individual_digits"].BoolOr(false);
    if (!individual.ok()) return individual.status();
    return AddRegexSplit(
        R"(\p{N})", *individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, steps);
  }
  if (*type == "Metaspace") {
    absl::StatusOr<MetaspaceOptions> options = ReadMetaspace(declaration);
    if (!options.ok()) return options.status();
    steps.push_back(
        MakeMetaspace(std::move(options->replacement), options->scheme, options->split));
    return absl::OkStatus();
  }
  return declaration.Unknown(*type);
}

absl::Status ReadDecoder(const JsonPlace& declaration, TokenDecoding& decoding) {
  // Without a decoder, Hugging Face's tokenizers puts spaces between tokens: no text comes back.
  if (declaration.is_null()) return declaration.Unknown("null");
  bool fused = false;
  return ReadDecoderStep(declaration, fused, decoding);
}

}  // namespace thresher
