#include "server/requests/attention_mapping.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/text/excerpt.h"
#include "server/requests/wire_error.h"

namespace thresher {
namespace {

// A phase given beside a level: another policy replaces the level's whole, the same policy (or
// none named) only the parameters that are given.
void Override(const PhaseWish& wish, PolicyChoice& choice) {
  if (wish.policy.has_value() && *wish.policy != choice.policy) {
    choice = PolicyChoice{.policy = *wish.policy, .parameters = {}};
  }
  for (const auto& [name, value] : wish.parameters) {
    bool found = false;
    for (auto& [present_name, present_value] : choice.parameters) {
      if (present_name != name) continue;
      present_value = value;
      found = true;
    }
    if (!found) choice.parameters.emplace_back(name, value);
  }
}

void StemWish(const v1::StemAttention& stem, PhaseWish& wish) {
  wish.policy = "stem";
  if (stem.has_mu()) wish.parameters.emplace_back("mu", stem.mu());
  if (stem.has_beta()) wish.parameters.emplace_back("beta", stem.beta());
}

void TopThetaWish(const v1::TopThetaAttention& top_theta, PhaseWish& wish) {
  wish.policy = "top_theta";
  if (top_theta.has_k()) wish.parameters.emplace_back("k", top_theta.k());
}

PhaseWish PrefillWish(const v1::PrefillAttention& prefill) {
  PhaseWish wish;
  if (prefill.has_dense()) wish.policy = "dense";
  if (prefill.has_stem()) StemWish(prefill.stem(), wish);
  if (prefill.has_top_theta()) TopThetaWish(prefill.top_theta(), wish);
  if (prefill.has_uniform()) wish.policy = "uniform";
  if (prefill.has_streaming()) wish.policy = "streaming";
  if (prefill.has_xattention()) wish.policy = "xattention";
  return wish;
}

PhaseWish DecodeWish(const v1::DecodeAttention& decode) {
  PhaseWish wish;
  if (decode.has_dense()) wish.policy = "dense";
  if (decode.has_top_theta()) TopThetaWish(decode.top_theta(), wish);
  return wish;
}

void FillStem(const PolicyChoice& choice, v1::StemAttention& stem) {
  for (const auto& [name, value] : choice.parameters) {
    if (name == "mu") stem.set_mu(value);
    if (name == "beta") stem.set_beta(value);
  }
}

void FillTopTheta(const PolicyChoice& choice, v1::TopThetaAttention& top_theta) {
  for (const auto& [name, value] : choice.parameters) {
    if (name == "k") top_theta.set_k(static_cast<int>(value));
  }
}

}  // namespace

const AttentionChoice* FindLevel(const std::vector<AttentionChoice>& levels,
                                 std::string_view name) {
  for (const AttentionChoice& level : levels) {
    if (level.level == name) return &level;
  }
  return nullptr;
}

std::string LevelNames(const std::vector<AttentionChoice>& levels) {
  std::string names;
  for (const AttentionChoice& level : levels) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", level.level);
  }
  return names;
}

absl::StatusOr<AttentionChoice> ResolveAttention(const AttentionWish& wish,
                                                 std::string_view header_level,
                                                 std::string_view key_level,
                                                 const std::vector<AttentionChoice>& levels,
                                                 std::string_view default_level) {
  absl::StatusOr<AttentionChoice> choice =
      MergeAttention(wish, header_level, key_level, levels, default_level);
  if (!choice.ok()) return choice;
  if (absl::Status status = ValidateAttentionChoice(*choice); !status.ok()) return status;
  return choice;
}

absl::StatusOr<AttentionChoice> MergeAttention(const AttentionWish& wish,
                                               std::string_view header_level,
                                               std::string_view key_level,
                                               const std::vector<AttentionChoice>& levels,
                                               std::string_view default_level) {
  std::string name(default_level);
  const char* field = "attention.level";
  if (wish.level.has_value()) {
    name = *wish.level;
  } else if (wish.given) {
    name = "off";
  } else if (!header_level.empty()) {
    name = std::string(header_level);
    field = "x-attention-level";
  } else if (!key_level.empty()) {
    name = std::string(key_level);
  }
  const AttentionChoice* level = FindLevel(levels, name);
  if (level == nullptr) {
    return InvalidField(field, absl::StrCat(field, " is '", Excerpt(name),
                                            "'; this server has: ", LevelNames(levels)));
  }
  AttentionChoice choice = *level;
  if (!wish.prefill.empty() || !wish.decode.empty()) choice.level = "custom";
  Override(wish.prefill, choice.prefill);
  Override(wish.decode, choice.decode);
  return choice;
}

AttentionWish WishFromProto(const v1::AttentionOptions& options) {
  AttentionWish wish;
  wish.given = true;
  if (!options.level().empty()) wish.level = options.level();
  wish.prefill = PrefillWish(options.prefill());
  wish.decode = DecodeWish(options.decode());
  return wish;
}

absl::Status WishToProto(const AttentionWish& wish, v1::AttentionOptions& options) {
  options.set_level(wish.level.value_or(""));
  v1::AttentionLevel level;
  for (const bool decode : {false, true}) {
    const PhaseWish& phase = decode ? wish.decode : wish.prefill;
    if (phase.empty()) continue;
    AttentionChoice choice;
    (decode ? choice.decode : choice.prefill) = {phase.policy.value_or(""), phase.parameters};
    LevelToProto(choice, level);
    const PhaseWish sent = decode ? DecodeWish(level.decode()) : PrefillWish(level.prefill());
    if (sent.policy != phase.policy || sent.parameters != phase.parameters) {
      return InvalidField("attention", absl::StrCat("attention.", decode ? "decode" : "prefill",
                                                    " cannot be sent over gRPC"));
    }
    if (decode) {
      *options.mutable_decode() = level.decode();
    } else {
      *options.mutable_prefill() = level.prefill();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<AttentionChoice> LevelFromProto(const v1::AttentionLevel& level) {
  if (level.name().empty() || level.name() == "custom") {
    return absl::InvalidArgumentError(
        absl::StrCat("level.name is '", level.name(), "'; it must be another, non-empty name"));
  }
  AttentionChoice choice;
  choice.level = level.name();
  Override(PrefillWish(level.prefill()), choice.prefill);
  Override(DecodeWish(level.decode()), choice.decode);
  if (absl::Status status = ValidateAttentionChoice(choice); !status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("level '", level.name(), "': ", status.message()));
  }
  return choice;
}

void LevelToProto(const AttentionChoice& choice, v1::AttentionLevel& level) {
  level.set_name(choice.level);
  v1::PrefillAttention& prefill = *level.mutable_prefill();
  if (choice.prefill.policy == "dense") prefill.mutable_dense();
  if (choice.prefill.policy == "stem") FillStem(choice.prefill, *prefill.mutable_stem());
  if (choice.prefill.policy == "top_theta") {
    FillTopTheta(choice.prefill, *prefill.mutable_top_theta());
  }
  if (choice.prefill.policy == "uniform") prefill.mutable_uniform();
  if (choice.prefill.policy == "streaming") prefill.mutable_streaming();
  if (choice.prefill.policy == "xattention") prefill.mutable_xattention();
  v1::DecodeAttention& decode = *level.mutable_decode();
  if (choice.decode.policy == "dense") decode.mutable_dense();
  if (choice.decode.policy == "top_theta") {
    FillTopTheta(choice.decode, *decode.mutable_top_theta());
  }
}

}  // namespace thresher
