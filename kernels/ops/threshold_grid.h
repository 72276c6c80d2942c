// A layer's thresholds over a grid of k and row lengths, and how a threshold is looked up.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

namespace thresher {

enum class ThresholdLookup : std::uint8_t {
  kBilinear,  // in (ln k, ln n); beyond the last length along the slope
  kNearest,   // the nearest grid length (of two, the shorter) and k, never beyond
};

// Views of a table; the owner outlives them. Values are device memory. theta is in units of what
// the placement compares: s, s minus its mean, or ln of a probability.
struct ThresholdGrid {
  std::span<const float> log_k;  // ln of the grid's k, ascending
  std::span<const float> log_n;  // ln of its row lengths, ascending
  const float* theta = nullptr;  // [num_k, num_n, num_heads]
  const float* slope = nullptr;  // [num_k, num_heads]: dθ / d ln n beyond the last length
  // Mean of Σ exp(s − m) over dropped keys, [num_k, num_n, num_heads]; null: not calibrated.
  const float* dropped = nullptr;
  int num_heads = 0;
  ThresholdLookup lookup = ThresholdLookup::kBilinear;
};

// Where a value lies on an ascending axis: between points `index` and `index + 1`, `weight` of the
// way; clamped to the axis.
struct GridPlace {
  int index = 0;
  float weight = 0;
};

inline GridPlace PlaceOnAxis(std::span<const float> axis, float value, ThresholdLookup lookup) {
  const auto last = static_cast<int>(axis.size()) - 1;
  if (value <= axis[0] || last == 0) return {0, 0};
  if (value >= axis[last]) return {last, 0};
  const auto above = std::upper_bound(axis.begin(), axis.end(), value);
  const int index = static_cast<int>(above - axis.begin()) - 1;
  if (lookup == ThresholdLookup::kNearest) {
    // Nearest in the number itself, as the published method looks it up; ties go down, so numbers
    // must be whole again after the exponential (f32 logarithms tell them apart to 10^5 and more).
    const auto whole = [](float log) { return std::round(std::exp(log)); };
    const float low = whole(axis[index]), high = whole(axis[index + 1]), at = whole(value);
    return {at - low <= high - at ? index : index + 1, 0};
  }
  return {index, (value - axis[index]) / (axis[index + 1] - axis[index])};
}

// The places of (k, n), once a row for all heads.
struct ThresholdPlace {
  GridPlace k, n;
  float beyond = 0;  // ln(n / last length) if positive and the lookup extrapolates
};

inline ThresholdPlace PlaceThreshold(const ThresholdGrid& grid, int k, int n) {
  const float log_n = std::log(static_cast<float>(n));
  ThresholdPlace place;
  place.k = PlaceOnAxis(grid.log_k, std::log(static_cast<float>(k)), grid.lookup);
  place.n = PlaceOnAxis(grid.log_n, log_n, grid.lookup);
  if (grid.lookup == ThresholdLookup::kBilinear) {
    place.beyond = std::max(0.0f, log_n - grid.log_n.back());
  }
  return place;
}

// Interpolates `values` [num_k, num_n, num_heads] (theta or dropped) for a head.
inline float InterpolateGrid(const ThresholdGrid& grid, const float* values,
                             const ThresholdPlace& place, int head) {
  const auto num_n = static_cast<int>(grid.log_n.size());
  const auto at = [&](int k, int n) { return values[(k * num_n + n) * grid.num_heads + head]; };
  const auto along_n = [&](int k) {
    const float low = at(k, place.n.index);
    return place.n.weight == 0 ? low : low + place.n.weight * (at(k, place.n.index + 1) - low);
  };
  const float low = along_n(place.k.index);
  return place.k.weight == 0 ? low : low + place.k.weight * (along_n(place.k.index + 1) - low);
}

inline float ThresholdAt(const ThresholdGrid& grid, const ThresholdPlace& place, int head) {
  float theta = InterpolateGrid(grid, grid.theta, place, head);
  if (place.beyond > 0) {
    const auto slope = [&](int k) { return grid.slope[k * grid.num_heads + head]; };
    float b = slope(place.k.index);
    if (place.k.weight != 0) b += place.k.weight * (slope(place.k.index + 1) - b);
    theta += b * place.beyond;
  }
  return theta;
}

}  // namespace thresher
