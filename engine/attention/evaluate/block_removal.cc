#include "engine/attention/evaluate/block_removal.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace thresher {

BlockRemoval RemoveEachBlock(std::span<const double> scores, std::span<const float> values,
                             int head_dim, int block) {
  const auto dim = static_cast<std::size_t>(head_dim), length = static_cast<std::size_t>(block);
  const std::size_t num_blocks = (scores.size() + length - 1) / length;
  BlockRemoval removal;
  removal.output.assign(dim, 0);
  removal.mass.assign(num_blocks, 0);
  removal.partial.assign(num_blocks * dim, 0);
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (std::size_t key = 0; key < scores.size(); ++key) {
    const double weight = std::exp(scores[key] - largest);
    const std::size_t own = key / length;
    sum += weight;
    removal.mass[own] += weight;
    for (std::size_t d = 0; d < dim; ++d) {
      removal.partial[own * dim + d] += weight * static_cast<double>(values[key * dim + d]);
    }
  }
  for (double& mass : removal.mass) mass /= sum;
  for (std::size_t i = 0; i < removal.partial.size(); ++i) {
    removal.partial[i] /= sum;
    removal.output[i % dim] += removal.partial[i];
  }
  // A block that has all the mass leaves nothing to renormalise.
  constexpr double kLeast = 1e-12;
  for (std::size_t j = 0; j < num_blocks; ++j) {
    double square = 0;
    for (std::size_t d = 0; d < dim; ++d) {
      const double change = removal.partial[j * dim + d] - removal.mass[j] * removal.output[d];
      square += change * change;
    }
    removal.error.push_back(std::sqrt(square) / std::max(kLeast, 1 - removal.mass[j]));
  }
  return removal;
}

double KendallTau(std::span<const double> a, std::span<const double> b) {
  std::int64_t agree = 0, differ = 0, only_a = 0, only_b = 0;  // tied in one alone: the other's
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const bool tied_a = a[i] == a[j], tied_b = b[i] == b[j];
      if (tied_a && tied_b) continue;
      if (tied_a) {
        ++only_b;
      } else if (tied_b) {
        ++only_a;
      } else {
        ++((a[i] > a[j]) == (b[i] > b[j]) ? agree : differ);
      }
    }
  }
  const double pairs_a = static_cast<double>(agree + differ + only_a);
  const double pairs_b = static_cast<double>(agree + differ + only_b);
  if (pairs_a == 0 || pairs_b == 0) return 0;
  return static_cast<double>(agree - differ) / std::sqrt(pairs_a * pairs_b);
}

}  // namespace thresher
