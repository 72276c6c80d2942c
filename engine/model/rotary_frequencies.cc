#include "engine/model/rotary_frequencies.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace thresher {
namespace {

// Slow pairs are divided by the factor, fast ones kept, and those between blended, by how often a
// pair turns within the original length. Llama 3.1's reference code.
double Llama3Frequency(const RopeConfig& rope, double frequency) {
  const double turns = rope.original_max_position * frequency / (2 * std::numbers::pi);
  if (turns < rope.low_freq_factor) return frequency / rope.factor;
  if (turns > rope.high_freq_factor) return frequency;
  const double kept =
      (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return frequency * ((1 - kept) / rope.factor + kept);
}

// YaRN (arXiv 2309.00071, section 3.2): the dimension whose pair turns `turns` times within the
// original length.
double YarnDimension(const RopeConfig& rope, double turns) {
  return rope.rotary_dim * std::log(rope.original_max_position / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(rope.theta));
}

void ApplyYarn(const RopeConfig& rope, std::vector<double>& frequencies) {
  double low = YarnDimension(rope, rope.beta_fast);
  double high = YarnDimension(rope, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, rope.rotary_dim - 1.0);
  if (low == high) high += 0.001;  // a step instead of a division by zero, as published code does
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double scaled = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] *= scaled / rope.factor + (1 - scaled);
  }
}

// Section 3.4: the factor 0.1 ln(s) + 1 on q and k together, thus on the table once for each.
double YarnMagnitude(double factor, double scale) {
  return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
}

double YarnAttentionFactor(const RopeConfig& rope) {
  if (rope.attention_factor.has_value()) return *rope.attention_factor;
  if (rope.mscale.value_or(0) != 0 && rope.mscale_all_dim.value_or(0) != 0) {
    return YarnMagnitude(rope.factor, *rope.mscale) /
           YarnMagnitude(rope.factor, *rope.mscale_all_dim);
  }
  return YarnMagnitude(rope.factor, 1);
}

// LongRoPE (arXiv 2402.13753) as Phi-3 ships it.
double LongRopeAttentionFactor(const RopeConfig& rope) {
  if (rope.attention_factor.has_value()) return *rope.attention_factor;
  if (rope.factor <= 1) return 1;
  return std::sqrt(1 + std::log(rope.factor) / std::log(rope.original_max_position));
}

void Divide(const std::vector<double>& divisors, std::vector<double>& frequencies) {
  for (std::size_t i = 0; i < divisors.size(); ++i) frequencies[i] /= divisors[i];
}

}  // namespace

RotaryFrequencies ComputeRotaryFrequencies(const RopeConfig& rope, int max_position) {
  RotaryFrequencies result;
  std::vector<double>& frequencies = result.radians_per_position;
  for (int i = 0; i < rope.rotary_dim / 2; ++i) {
    frequencies.push_back(std::pow(rope.theta, -2.0 * i / rope.rotary_dim));
  }
  Divide(rope.frequency_factors, frequencies);
  switch (rope.scaling) {
    case RopeScaling::kNone:
    case RopeScaling::kDynamicNtk:
      break;
    case RopeScaling::kLinear:
      for (double& frequency : frequencies) frequency /= rope.factor;
      break;
    case RopeScaling::kYarn:
      ApplyYarn(rope, frequencies);
      result.attention_factor = YarnAttentionFactor(rope);
      break;
    case RopeScaling::kLlama3:
      for (double& frequency : frequencies) frequency = Llama3Frequency(rope, frequency);
      break;
    case RopeScaling::kLongRope:
      Divide(max_position > rope.original_max_position ? rope.long_factor : rope.short_factor,
             frequencies);
      result.attention_factor = LongRopeAttentionFactor(rope);
      break;
  }
  return result;
}

void FillRotaryTable(const RotaryFrequencies& frequencies, int num_positions,
                     std::span<float> cos_sin) {
  const std::size_t half = frequencies.radians_per_position.size();
  float* row = cos_sin.data();
  for (int position = 0; position < num_positions; ++position, row += 2 * half) {
    for (std::size_t i = 0; i < half; ++i) {
      // In double: in float the angle itself would be off by position · 2^-24.
      const double angle = position * frequencies.radians_per_position[i];
      row[i] = static_cast<float>(std::cos(angle) * frequencies.attention_factor);
      row[half + i] = static_cast<float>(std::sin(angle) * frequencies.attention_factor);
    }
  }
}

}  // namespace thresher
