#include "engine/attention/model_fingerprint.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/attention/content_hash.h"

namespace thresher {
namespace {

constexpr char kRope[] = "rope";
constexpr std::array<std::string_view, 7> kMatrices = {
    "self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight",
    "self_attn.o_proj.weight", "mlp.gate_proj.weight",    "mlp.up_proj.weight",
    "mlp.down_proj.weight"};

std::string_view ScalingName(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::kNone:
      return "none";
    case RopeScaling::kLinear:
      return "linear";
    case RopeScaling::kDynamicNtk:
      return "dynamic";
    case RopeScaling::kYarn:
      return "yarn";
    case RopeScaling::kLlama3:
      return "llama3";
    case RopeScaling::kLongRope:
      return "longrope";
  }
  return "unknown";
}

std::string Hex(std::uint64_t value) { return absl::StrCat(absl::Hex(value, absl::kZeroPad16)); }

std::string RopeText(const RopeConfig& rope) {
  std::string text = absl::StrCat("theta ", rope.theta, ", rotary_dim ", rope.rotary_dim,
                                  ", scaling ", std::string(ScalingName(rope.scaling)));
  if (rope.scaling != RopeScaling::kNone) {
    absl::StrAppend(&text, " factor ", rope.factor, " original ", rope.original_max_position);
    if (rope.scaling == RopeScaling::kLlama3) {
      absl::StrAppend(&text, " low ", rope.low_freq_factor, " high ", rope.high_freq_factor);
    } else if (rope.scaling == RopeScaling::kYarn) {
      absl::StrAppend(&text, " beta ", rope.beta_fast, "/", rope.beta_slow,
                      rope.truncate ? "" : " untruncated");
    }
  }
  const auto optional = [&](const char* name, const std::optional<double>& value) {
    if (value.has_value()) absl::StrAppend(&text, " ", name, " ", *value);
  };
  optional("attention_factor", rope.attention_factor);
  optional("mscale", rope.mscale);
  optional("mscale_all_dim", rope.mscale_all_dim);
  ContentHash factors;
  for (const auto* list : {&rope.short_factor, &rope.long_factor, &rope.frequency_factors}) {
    factors.Add(std::as_bytes(std::span(*list)));
    factors.Add("|");
  }
  if (!rope.short_factor.empty() || !rope.long_factor.empty() || !rope.frequency_factors.empty()) {
    absl::StrAppend(&text, " factors ", Hex(factors.value()));
  }
  return text;
}

// Sixteen stretches of 64 bytes, spread over the matrix.
void AddSamples(std::span<const std::byte> bytes, ContentHash& hash) {
  constexpr std::size_t kStretches = 16, kLength = 64;
  if (bytes.size() <= kStretches * kLength) {
    hash.Add(bytes);
    return;
  }
  const std::size_t step = (bytes.size() - kLength) / (kStretches - 1);
  for (std::size_t i = 0; i < kStretches; ++i) hash.Add(bytes.subspan(i * step, kLength));
}

absl::StatusOr<std::uint64_t> HashWeights(const ModelFiles& files, const ModelConfig& config) {
  ContentHash hash;
  for (int layer = 0; layer < config.num_layers; ++layer) {
    for (const std::string_view matrix : kMatrices) {
      const absl::StatusOr<WeightSource> source =
          files.Weight(absl::StrCat("model.layers.", layer, ".", std::string(matrix)));
      if (!source.ok()) return source.status();
      hash.Add(Name(source->format));
      if (source->generated.has_value()) {
        hash.Add(absl::StrCat("seed ", source->generated->seed, " deviation ",
                              source->generated->deviation));
        continue;
      }
      const std::int64_t row_bytes =
          source->cols / BlockElements(source->format) * BlockBytes(source->format);
      AddSamples({source->bytes, static_cast<std::size_t>(source->rows * row_bytes)}, hash);
    }
  }
  return hash.value();
}

}  // namespace

absl::StatusOr<ModelFingerprint> FingerprintOf(const ModelFiles& files, const ModelConfig& config,
                                               DType kv_dtype) {
  const absl::StatusOr<std::uint64_t> weights = HashWeights(files, config);
  if (!weights.ok()) return weights.status();
  ModelFingerprint print;
  const auto add = [&](const char* name, std::string value) {
    print.fields.push_back({name, std::move(value)});
  };
  add("family", config.family);
  add("layers", absl::StrCat(config.num_layers));
  add("heads", absl::StrCat(config.num_heads));
  add("KV heads", absl::StrCat(config.num_kv_heads));
  add("head_dim", absl::StrCat(config.head_dim));
  add("hidden size", absl::StrCat(config.hidden_size));
  add(kRope, RopeText(config.rope));
  add("sliding window",
      config.sliding_window.has_value() ? absl::StrCat(*config.sliding_window) : "none");
  add("weights", Hex(*weights));
  const bool wide = kv_dtype == DType::kF32 || kv_dtype == DType::kF16 || kv_dtype == DType::kBF16;
  add("KV cache", wide ? "16 bits or more" : std::string(Name(kv_dtype)));
  return print;
}

absl::Status CheckFingerprint(const ModelFingerprint& table, const ModelFingerprint& model) {
  for (const ModelFingerprint::Field& field : model.fields) {
    const auto found = std::find_if(table.fields.begin(), table.fields.end(),
                                    [&](const auto& other) { return other.name == field.name; });
    const std::string value = found == table.fields.end() ? "(not stated)" : found->value;
    if (value != field.value) {
      // The one field that a flag changes.
      const char* advice = field.name == kRope
                               ? "; calibrate again with the --context-factor that the model runs "
                                 "with (1 where it has none)"
                               : "";
      return absl::FailedPreconditionError(
          absl::StrCat("calibrated for another model: ", field.name, " is \"", value,
                       "\" in the table and \"", field.value, "\" in the model", advice));
    }
  }
  return absl::OkStatus();
}

}  // namespace thresher
