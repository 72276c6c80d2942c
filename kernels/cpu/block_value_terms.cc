#include "kernels/cpu/block_value_terms.h"

#include <algorithm>
#include <cmath>

namespace thresher {
namespace {

// A NaN stays, so that its block ranks last.
float LargestOf(const float* squares, int count) {
  float largest = 0;
  for (int i = 0; i < count; ++i) {
    if (squares[i] > largest || std::isnan(squares[i])) largest = squares[i];
  }
  return largest;
}

float NotBelowZero(float x) { return x < 0 ? 0 : x; }

}  // namespace

void GroupLogNorms(const float* squares, int num_groups, int stride, float* groups) {
  for (int group = 0; group < num_groups; ++group) {
    groups[group] = std::log(std::sqrt(LargestOf(squares + group * stride, stride)) + 1e-6f);
  }
}

float RawValueTerm(const float* squares, int num_values) {
  return NotBelowZero(0.5f * std::log(LargestOf(squares, num_values)));
}

float NormalisedValueTerm(const float* groups, int num_groups, float mean, float std) {
  float sum = 0;
  for (int group = 0; group < num_groups; ++group)
    sum += NotBelowZero((groups[group] - mean) / std);
  return sum / static_cast<float>(num_groups);
}

GroupStatistics StatisticsOf(const float* groups, std::int64_t num_groups) {
  double sum = 0;
  for (std::int64_t i = 0; i < num_groups; ++i) sum += groups[i];
  const double mean = num_groups > 0 ? sum / static_cast<double>(num_groups) : 0;
  double squares = 0;
  for (std::int64_t i = 0; i < num_groups; ++i) squares += (groups[i] - mean) * (groups[i] - mean);
  const auto others = static_cast<double>(std::max<std::int64_t>(1, num_groups - 1));
  return {static_cast<float>(mean), static_cast<float>(std::sqrt(squares / others) + 1e-6)};
}

}  // namespace thresher
