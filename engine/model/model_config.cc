#include "engine/model/model_config.h"

#include <cmath>
#include <initializer_list>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

// Limits far above every known model that keep products of two of these inside 64 bits and every
// single one, times 4 bytes, inside 32.
constexpr int kMaxSize = 1 << 24;
constexpr int kMaxLayers = 1024;
constexpr int kMaxHeadDim = 256;  // what the attention kernels take
constexpr int kMaxPosition = 1 << 26;

struct Bound {
  const char* name;
  int value;
  int minimum;
  int maximum;
};

absl::Status Wrong(const char* field, double value, const std::string& rule) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; it must be ", rule));
}

absl::Status CheckFactors(const char* field, const std::vector<double>& factors, int rotary_dim) {
  if (static_cast<int>(factors.size()) != rotary_dim / 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " has ", factors.size(),
                     " entries; it must have rotary_dim / 2 = ", rotary_dim / 2));
  }
  for (const double factor : factors) {
    if (!(factor > 0 && std::isfinite(factor))) return Wrong(field, factor, "positive and finite");
  }
  return absl::OkStatus();
}

absl::Status CheckRope(const RopeConfig& rope, int head_dim) {
  // A base of 1 or less would turn all pairs alike; NaN fails every comparison.
  if (!(rope.theta > 1 && std::isfinite(rope.theta))) {
    return Wrong("rope theta", rope.theta, "finite and above 1");
  }
  if (rope.rotary_dim != head_dim) {
    return Wrong("rotary_dim", rope.rotary_dim, absl::StrCat("head_dim, ", head_dim));
  }
  if (rope.scaling != RopeScaling::kNone && !(rope.factor >= 1 && std::isfinite(rope.factor))) {
    return Wrong("rope factor", rope.factor, "finite and at least 1");
  }
  if (rope.attention_factor.has_value() &&
      !(*rope.attention_factor > 0 && std::isfinite(*rope.attention_factor))) {
    return Wrong("rope attention_factor", *rope.attention_factor, "positive and finite");
  }
  const bool needs_original = rope.scaling == RopeScaling::kYarn ||
                              rope.scaling == RopeScaling::kLlama3 ||
                              rope.scaling == RopeScaling::kLongRope;
  if (needs_original && rope.original_max_position <= 1) {
    return Wrong("rope original_max_position_embeddings", rope.original_max_position, "above 1");
  }
  if (rope.scaling == RopeScaling::kLlama3 &&
      !(rope.low_freq_factor > 0 && rope.high_freq_factor > rope.low_freq_factor &&
        std::isfinite(rope.high_freq_factor))) {
    return Wrong("rope high_freq_factor", rope.high_freq_factor,
                 absl::StrCat("finite and above low_freq_factor, ", rope.low_freq_factor,
                              ", which must be positive"));
  }
  if (rope.scaling == RopeScaling::kYarn &&
      !(rope.beta_slow > 0 && rope.beta_fast >= rope.beta_slow && std::isfinite(rope.beta_fast))) {
    return Wrong("rope beta_fast", rope.beta_fast,
                 absl::StrCat("finite and at least beta_slow, ", rope.beta_slow,
                              ", which must be positive"));
  }
  if (rope.scaling == RopeScaling::kLongRope) {
    absl::Status status = CheckFactors("rope short_factor", rope.short_factor, rope.rotary_dim);
    if (!status.ok()) return status;
    status = CheckFactors("rope long_factor", rope.long_factor, rope.rotary_dim);
    if (!status.ok()) return status;
  }
  if (rope.frequency_factors.empty()) return absl::OkStatus();
  return CheckFactors("rope_freqs", rope.frequency_factors, rope.rotary_dim);
}

}  // namespace

absl::Status ModelConfig::Validate() const {
  for (const Bound& bound :
       std::initializer_list<Bound>{{"num_layers", num_layers, 1, kMaxLayers},
                                    {"hidden_size", hidden_size, 1, kMaxSize},
                                    {"intermediate_size", intermediate_size, 1, kMaxSize},
                                    {"num_heads", num_heads, 1, kMaxSize / kMaxHeadDim},
                                    {"num_kv_heads", num_kv_heads, 1, num_heads},
                                    {"head_dim", head_dim, 8, kMaxHeadDim},
                                    {"vocab_size", vocab_size, 1, kMaxSize},
                                    {"max_position", max_position, 1, kMaxPosition}}) {
    if (bound.value < bound.minimum || bound.value > bound.maximum) {
      return Wrong(bound.name, bound.value, absl::StrCat(bound.minimum, " to ", bound.maximum));
    }
  }
  if (num_heads % num_kv_heads != 0) {
    return Wrong("num_heads", num_heads,
                 absl::StrCat("a multiple of num_kv_heads, ", num_kv_heads));
  }
  if (head_dim % 8 != 0) return Wrong("head_dim", head_dim, "a multiple of 8");
  if (!(rms_norm_epsilon > 0 && rms_norm_epsilon < 1)) {
    return Wrong("rms_norm_epsilon", rms_norm_epsilon, "above 0 and below 1");
  }
  return CheckRope(rope, head_dim);
}

}  // namespace thresher
