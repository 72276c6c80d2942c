// Passes over a row of logits over a vector type; see row_ops.h.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/cpu/row_ops.h"
#include "kernels/cpu/simd_math.h"

namespace thresher {
// Unnamed on purpose, see simd_avx2.h.
namespace {

inline constexpr float kMinusInfinity = -__builtin_inff();

// Lanes beyond the row read as −infinity.
template <typename V>
inline typename V::F LoadLogits(const float* x, std::int64_t i, std::int64_t c) {
  if (i + V::kLanes <= c) return V::Load(x + i);
  float lanes[V::kLanes];
  for (int lane = 0; lane < V::kLanes; ++lane) {
    lanes[lane] = i + lane < c ? x[i + lane] : kMinusInfinity;
  }
  return V::Load(lanes);
}

template <typename V>
RowMaximum MaximumOfRow(const float* x, std::int64_t c) {
  using F = typename V::F;
  F best[2] = {V::Set(kMinusInfinity), V::Set(kMinusInfinity)};
  unsigned nan = 0;
  for (std::int64_t i = 0; i < c; i += 2 * V::kLanes) {
    const F a = LoadLogits<V>(x, i, c), b = LoadLogits<V>(x, i + V::kLanes, c);
    nan |= V::Bits(V::IsNan(a)) | V::Bits(V::IsNan(b));
    best[0] = V::Max(best[0], a);
    best[1] = V::Max(best[1], b);
  }
  RowMaximum maximum;
  maximum.value = V::MaxOf(V::Max(best[0], best[1]));
  maximum.valid = nan == 0 && maximum.value > kMinusInfinity && maximum.value < -kMinusInfinity;
  if (!maximum.valid) return maximum;
  const F value = V::Set(maximum.value);
  for (std::int64_t i = 0; i < c; i += V::kLanes) {
    const unsigned equal = V::Bits(V::GreaterEqual(LoadLogits<V>(x, i, c), value));
    if (equal != 0) {
      maximum.index = i + __builtin_ctz(equal);
      break;
    }
  }
  return maximum;
}

template <typename V>
void BlockMaxima(const float* x, std::int64_t c, float* block_max) {
  for (std::int64_t begin = 0, block = 0; begin < c; begin += kLogitBlock, ++block) {
    typename V::F best = V::Set(kMinusInfinity);
    for (int i = 0; i < kLogitBlock; i += V::kLanes) {
      best = V::Max(best, LoadLogits<V>(x, begin + i, c));
    }
    block_max[block] = V::MaxOf(best);
  }
}

template <typename V>
void ExpWeights(const float* x, std::int64_t c, float maximum, float temperature, float* weight,
                float* block_sum) {
  using F = typename V::F;
  const F top = V::Set(maximum), divisor = V::Set(temperature);
  for (std::int64_t begin = 0, block = 0; begin < c; begin += kLogitBlock, ++block) {
    F sum = V::Zero();
    for (std::int64_t i = begin; i < begin + kLogitBlock && i < c; i += V::kLanes) {
      // Division, not a product with 1 / temperature, which overflows for a tiny temperature and
      // would make 0 · infinity of the largest logit.
      const F w = Exp<V>(V::Div(V::Sub(LoadLogits<V>(x, i, c), top), divisor));
      if (i + V::kLanes <= c) {
        V::Store(weight + i, w);
      } else {
        V::StoreFirst(weight + i, static_cast<int>(c - i), w);
      }
      sum = V::Add(sum, w);
    }
    block_sum[block] = V::SumOf(sum);
  }
}

template <typename V>
double SumExp(const float* x, std::int64_t c, float maximum) {
  using F = typename V::F;
  const F top = V::Set(maximum);
  double total = 0;
  for (std::int64_t begin = 0; begin < c; begin += kLogitBlock) {
    F sum = V::Zero();
    for (std::int64_t i = begin; i < begin + kLogitBlock && i < c; i += V::kLanes) {
      sum = V::Add(sum, Exp<V>(V::Sub(LoadLogits<V>(x, i, c), top)));
    }
    total += V::SumOf(sum);
  }
  return total;
}

template <typename V>
std::int64_t CountGreater(const float* x, std::int64_t c, float value) {
  const typename V::F bound = V::Set(value);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < c; i += V::kLanes) {
    count += __builtin_popcount(V::Bits(V::Greater(LoadLogits<V>(x, i, c), bound)));
  }
  return count;
}

}  // namespace
}  // namespace thresher
