#include "engine/model/hf_rope_config.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/field_reader.h"

namespace thresher {
namespace {

constexpr int kMaxPosition = 1 << 30;
constexpr double kMaxFactor = 1e6;

struct ScalingRow {
  const char* name;
  RopeScaling scaling;
  bool needs_factor;
};

constexpr ScalingRow kScalings[] = {
    {"default", RopeScaling::kNone, false},      {"linear", RopeScaling::kLinear, true},
    {"dynamic", RopeScaling::kDynamicNtk, true}, {"yarn", RopeScaling::kYarn, false},
    {"llama3", RopeScaling::kLlama3, true},      {"longrope", RopeScaling::kLongRope, false},
    {"su", RopeScaling::kLongRope, false},  // longrope's first name
};

}  // namespace

absl::StatusOr<RopeConfig> RopeConfigFromHuggingFace(const nlohmann::json& config, int head_dim,
                                                     int max_position) {
  absl::Status status;
  FieldReader top(config, "config.json", status);
  const bool is_new_form = top.Has("rope_parameters");
  const std::string name = is_new_form ? "rope_parameters" : "rope_scaling";
  const nlohmann::json* object = top.Object(name);
  const nlohmann::json none = nlohmann::json::object();
  FieldReader fields(object == nullptr ? none : *object, "config.json: " + name, status);

  RopeConfig rope;
  rope.rotary_dim = head_dim;
  const std::optional<double> top_theta = top.OptionalFloat("rope_theta", 0, 1e15);
  rope.theta = fields.OptionalFloat("rope_theta", 0, 1e15).value_or(top_theta.value_or(10000));
  // The newer key is rope_type; both are in use, and the older files say "type".
  std::string type = fields.OptionalString("type").value_or("default");
  type = fields.OptionalString("rope_type").value_or(type);
  for (FieldReader* reader : {&top, &fields}) {
    const std::optional<double> part = reader->OptionalFloat("partial_rotary_factor", 0, 1);
    if (status.ok() && part.value_or(1) != 1) {
      return absl::UnimplementedError(absl::StrCat("config.json: partial_rotary_factor is ", *part,
                                                   "; only whole heads are rotated"));
    }
  }
  if (object != nullptr && !object->empty() && object->begin()->is_object()) {
    return absl::UnimplementedError(
        absl::StrCat("config.json: ", name, " differs from layer to layer"));
  }
  const ScalingRow* row = nullptr;
  for (const ScalingRow& candidate : kScalings) {
    if (type == candidate.name) row = &candidate;
  }
  if (!status.ok()) return status;
  if (row == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("config.json: rope type '", type.substr(0, 40), "' is not known"));
  }
  rope.scaling = row->scaling;
  if (row->needs_factor && !fields.Has("factor")) {
    return absl::InvalidArgumentError(absl::StrCat("config.json: ", name, " lacks factor"));
  }

  // Older longrope files keep this at the top.
  const std::optional<int> top_original =
      top.OptionalInt("original_max_position_embeddings", 1, kMaxPosition);
  rope.original_max_position =
      fields.OptionalInt("original_max_position_embeddings", 1, kMaxPosition)
          .value_or(top_original.value_or(max_position));
  const double ratio = static_cast<double>(max_position) / rope.original_max_position;
  rope.factor = fields.OptionalFloat("factor", 0, kMaxFactor).value_or(ratio < 1 ? 1 : ratio);
  rope.low_freq_factor =
      fields.OptionalFloat("low_freq_factor", 0, kMaxFactor).value_or(rope.low_freq_factor);
  rope.high_freq_factor =
      fields.OptionalFloat("high_freq_factor", 0, kMaxFactor).value_or(rope.high_freq_factor);
  rope.beta_fast = fields.OptionalFloat("beta_fast", 0, kMaxFactor).value_or(rope.beta_fast);
  rope.beta_slow = fields.OptionalFloat("beta_slow", 0, kMaxFactor).value_or(rope.beta_slow);
  rope.truncate = fields.BoolOr("truncate", true);
  rope.attention_factor = fields.OptionalFloat("attention_factor", 0, kMaxFactor);
  rope.mscale = fields.OptionalFloat("mscale", 0, kMaxFactor);
  rope.mscale_all_dim = fields.OptionalFloat("mscale_all_dim", 0, kMaxFactor);
  rope.short_factor = fields.Floats("short_factor", 0, kMaxFactor);
  rope.long_factor = fields.Floats("long_factor", 0, kMaxFactor);
  if (!status.ok()) return status;
  return rope;
}

}  // namespace thresher
