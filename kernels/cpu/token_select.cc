#include "kernels/cpu/token_select.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace thresher {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// A value that at least k elements reach: the k-th largest block maximum.
float LowerBoundOfKth(std::int64_t k, SelectScratch& scratch) {
  const std::int64_t num_blocks = static_cast<std::int64_t>(scratch.block_max.size());
  if (k > num_blocks) return kMinusInfinity;
  scratch.ordered_max = scratch.block_max;
  const auto kth = scratch.ordered_max.begin() + (k - 1);
  std::nth_element(scratch.ordered_max.begin(), kth, scratch.ordered_max.end(), std::greater<>());
  return *kth;
}

}  // namespace

void SelectScratch::Reserve(std::int64_t n) {
  const auto blocks = static_cast<std::size_t>((n + kLogitBlock - 1) / kLogitBlock);
  block_max.reserve(blocks);
  ordered_max.reserve(blocks);
  ordered.reserve(static_cast<std::size_t>(n));
}

void SelectTopK(const RowOps& ops, std::span<const float> values, std::int64_t k,
                SelectScratch& scratch, std::vector<Candidate>& top) {
  top.clear();
  if (k <= 0) return;
  const std::int64_t n = static_cast<std::int64_t>(values.size());
  scratch.block_max.resize((n + kLogitBlock - 1) / kLogitBlock);
  ops.block_maxima(values.data(), n, scratch.block_max.data());
  const float bound = LowerBoundOfKth(k, scratch);
  for (std::size_t block = 0; block < scratch.block_max.size(); ++block) {
    if (scratch.block_max[block] < bound) continue;
    const std::int64_t begin = static_cast<std::int64_t>(block) * kLogitBlock;
    const std::int64_t end = std::min(n, begin + kLogitBlock);
    for (std::int64_t i = begin; i < end; ++i) {
      if (values[i] >= bound && values[i] > kMinusInfinity) {
        top.push_back({values[i], static_cast<std::int32_t>(i)});
      }
    }
  }
  if (static_cast<std::int64_t>(top.size()) > k) {
    std::nth_element(top.begin(), top.begin() + k, top.end(), Before);
    top.resize(k);
  }
  std::sort(top.begin(), top.end(), Before);
}

void KeepMass(double mass, SelectScratch& scratch, std::vector<Candidate>& candidates) {
  if (candidates.empty()) return;
  std::vector<Candidate>& ordered = scratch.ordered;
  ordered.assign(candidates.begin(), candidates.end());
  // Halve [low, high), which holds the last candidate to keep; all before `low` are kept and sum to
  // `kept`.
  constexpr std::size_t kSortBelow = 64;
  std::size_t low = 0, high = ordered.size();
  double kept = 0;
  while (high - low > kSortBelow) {
    const std::size_t middle = low + (high - low) / 2;
    std::nth_element(ordered.begin() + low, ordered.begin() + middle, ordered.begin() + high,
                     Before);
    double upper = 0;
    for (std::size_t i = low; i < middle; ++i) upper += ordered[i].value;
    if (kept + upper >= mass) {
      high = middle;
    } else {
      kept += upper;
      low = middle;
    }
  }
  std::sort(ordered.begin() + low, ordered.begin() + high, Before);
  std::size_t last = low;
  kept += ordered[last].value;
  while (kept < mass && last + 1 < high) kept += ordered[++last].value;
  const Candidate cut = ordered[last];
  std::erase_if(candidates, [&](const Candidate& candidate) { return Before(cut, candidate); });
}

}  // namespace thresher
