// How far logits may be apart, derived from the number formats.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "engine/model/model_config.h"
#include "kernels/device/dtype.h"

namespace thresher::testing {

// Half of the distance between neighbours, relative to the number.
constexpr double kFloatUnit = 1.0 / (1 << 24);
constexpr double kBfloat16Unit = 1.0 / (1 << 8);

// Infinite if the sizes differ or a number is not one.
inline double LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
    if (std::isnan(difference)) return INFINITY;
    largest = std::max(largest, difference);
  }
  return largest;
}

inline double Largest(const std::vector<float>& values) {
  return LargestDifference(values, std::vector<float>(values.size()));
}

// What arithmetic in float may do to a logit. A product of `width` terms is off by sqrt(width)
// units of its size, as its roundings are independent; a layer has four in a row, and norms,
// softmax and the activation count as six of width one. What a layer is off by goes through to the
// logits at the size of its share of the residual; layers are independent too.
inline double FloatBound(const ModelConfig& config, double largest_logit) {
  const double width = std::max(config.hidden_size, config.intermediate_size);
  return kFloatUnit * std::sqrt(config.num_layers) * (4 * std::sqrt(width) + 6) * largest_logit;
}

// What rounding the inputs of products and the cache to bf16 does: sums stay in float, so that a
// product is off by one unit of its size whatever its width. Where activations between ops are bf16
// too, a layer rounds its four products' results and the rotated queries once more.
inline double Bfloat16Bound(const ModelConfig& config, double largest_logit,
                            DType activation = DType::kF32) {
  const int stored = activation == DType::kF32 ? 0 : 4 + 1;
  return kBfloat16Unit * std::sqrt(config.num_layers) * (4 + 6 + stored) * largest_logit;
}

// What the oracle's rotations may do: transformers rounds a frequency, its product with the
// position and the cosine to float whatever the model's type, so an angle is off by 3 units of the
// position at most, and with it the attention by about as much of itself.
inline double RotationBound(std::size_t num_positions, double largest_logit) {
  return 3 * kFloatUnit * static_cast<double>(num_positions) * largest_logit;
}

}  // namespace thresher::testing
