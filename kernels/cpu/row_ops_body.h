// Norms, SiLU, rotation and conversion over a vector type; see row_ops.h.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cpu/row_ops.h"
#include "kernels/cpu/simd_math.h"

namespace thresher {
// Unnamed on purpose, see simd_avx2.h.
namespace {

// out = x · weight · factor.
template <typename V, DType kOut>
inline void ScaleRow(const float* x, const float* weight, float factor, std::int64_t c, void* out) {
  const typename V::F scale = V::Set(factor);
  ForVectors<V>(
      c,
      [&](std::int64_t i) {
        StoreAs<V, kOut>(out, i, V::Mul(V::Mul(V::Load(x + i), scale), V::Load(weight + i)));
      },
      [&](std::int64_t i, int n) {
        StoreFirstAs<V, kOut>(
            out, i, n, V::Mul(V::Mul(V::LoadFirst(x + i, n), scale), V::LoadFirst(weight + i, n)));
      });
}

// Four chains hide the latency of the FMA and shorten the sums: the error of the sum of squares is
// about c / (4 kLanes) · 2^-24.
template <typename V, typename LoadFull, typename LoadTail>
inline float SumOfSquares(std::int64_t c, const LoadFull& load, const LoadTail& load_first) {
  typename V::F sums[4] = {V::Zero(), V::Zero(), V::Zero(), V::Zero()};
  std::int64_t i = 0;
  for (; i + 4 * V::kLanes <= c; i += 4 * V::kLanes) {
    for (int chain = 0; chain < 4; ++chain) {
      const typename V::F x = load(i + chain * V::kLanes);
      sums[chain] = V::Fma(x, x, sums[chain]);
    }
  }
  for (; i + V::kLanes <= c; i += V::kLanes) {
    const typename V::F x = load(i);
    sums[0] = V::Fma(x, x, sums[0]);
  }
  if (i < c) {
    const typename V::F x = load_first(i, static_cast<int>(c - i));
    sums[1] = V::Fma(x, x, sums[1]);
  }
  return V::SumOf(V::Add(V::Add(sums[0], sums[1]), V::Add(sums[2], sums[3])));
}

inline float InverseRms(float sum_of_squares, float epsilon, std::int64_t c) {
  return 1.0f / __builtin_sqrtf(sum_of_squares / static_cast<float>(c) + epsilon);
}

template <typename V>
inline void ScaleRowTo(const float* x, const float* weight, float factor, std::int64_t c,
                       DType out_dtype, void* out) {
  if (out_dtype == DType::kF32) {
    ScaleRow<V, DType::kF32>(x, weight, factor, c, out);
  } else {
    ScaleRow<V, DType::kBF16>(x, weight, factor, c, out);
  }
}

template <typename V>
void RmsNormRow(const float* x, const float* weight, float epsilon, std::int64_t c, DType out_dtype,
                void* out) {
  const float sum = SumOfSquares<V>(
      c, [&](std::int64_t i) { return V::Load(x + i); },
      [&](std::int64_t i, int n) { return V::LoadFirst(x + i, n); });
  ScaleRowTo<V>(x, weight, InverseRms(sum, epsilon, c), c, out_dtype, out);
}

template <typename V>
void AddRmsNormRow(const float* x, float* residual, const float* weight, float epsilon,
                   std::int64_t c, DType out_dtype, void* out) {
  const float sum = SumOfSquares<V>(
      c,
      [&](std::int64_t i) {
        const typename V::F added = V::Add(V::Load(residual + i), V::Load(x + i));
        V::Store(residual + i, added);
        return added;
      },
      [&](std::int64_t i, int n) {
        const typename V::F added = V::Add(V::LoadFirst(residual + i, n), V::LoadFirst(x + i, n));
        V::StoreFirst(residual + i, n, added);
        return added;
      });
  ScaleRowTo<V>(residual, weight, InverseRms(sum, epsilon, c), c, out_dtype, out);
}

template <typename V>
inline typename V::F Silu(typename V::F x) {
  // Exp clamps above 88; below −88 silu is less than 1e-36 in size and taken as 0.
  const typename V::F y = V::Div(x, V::Add(V::Set(1.0f), Exp<V>(V::Sub(V::Zero(), x))));
  return V::ZeroWhere(V::Less(x, V::Set(-88.0f)), y);
}

template <typename V, DType kOut>
inline void SiluMulAs(const float* gate, const float* up, std::int64_t c, void* out) {
  ForVectors<V>(
      c,
      [&](std::int64_t i) {
        StoreAs<V, kOut>(out, i, V::Mul(Silu<V>(V::Load(gate + i)), V::Load(up + i)));
      },
      [&](std::int64_t i, int n) {
        StoreFirstAs<V, kOut>(out, i, n,
                              V::Mul(Silu<V>(V::LoadFirst(gate + i, n)), V::LoadFirst(up + i, n)));
      });
}

template <typename V>
void SiluMulRow(const float* gate_up, std::int64_t c, DType out_dtype, void* out) {
  if (out_dtype == DType::kF32) {
    SiluMulAs<V, DType::kF32>(gate_up, gate_up + c, c, out);
  } else {
    SiluMulAs<V, DType::kBF16>(gate_up, gate_up + c, c, out);
  }
}

template <typename V, DType kOut>
inline void ConvertAs(const float* x, std::int64_t c, void* out) {
  ForVectors<V>(
      c, [&](std::int64_t i) { StoreAs<V, kOut>(out, i, V::Load(x + i)); },
      [&](std::int64_t i, int n) { StoreFirstAs<V, kOut>(out, i, n, V::LoadFirst(x + i, n)); });
}

template <typename V>
void ConvertRow(const float* x, std::int64_t c, DType out_dtype, void* out) {
  if (out_dtype == DType::kF32) {
    ConvertAs<V, DType::kF32>(x, c, out);
  } else if (out_dtype == DType::kBF16) {
    ConvertAs<V, DType::kBF16>(x, c, out);
  } else {
    ConvertAs<V, DType::kF16>(x, c, out);
  }
}

template <typename V>
void AddToSum(const void* x, DType dtype, std::int64_t c, float* sum) {
  if (dtype == DType::kF32) {
    AddRow<V, DType::kF32>(x, c, sum);
  } else if (dtype == DType::kBF16) {
    AddRow<V, DType::kBF16>(x, c, sum);
  } else {
    AddRow<V, DType::kF16>(x, c, sum);
  }
}

template <typename V>
void RotateHead(const float* x, const float* norm_weight, float epsilon, const float* cos_sin,
                int rotary_dim, int head_dim, DType out_dtype, void* out) {
  float normed[256];
  if (norm_weight != nullptr) {
    RmsNormRow<V>(x, norm_weight, epsilon, head_dim, DType::kF32, normed);
    x = normed;
  }
  float buffer[256];
  float* rotated = out_dtype == DType::kF32 ? static_cast<float*>(out) : buffer;
  const int half = rotary_dim / 2;
  const float* sin = cos_sin + half;
  ForVectors<V>(
      half,
      [&](std::int64_t i) {
        const typename V::F a = V::Load(x + i), b = V::Load(x + half + i);
        const typename V::F c = V::Load(cos_sin + i), s = V::Load(sin + i);
        V::Store(rotated + i, V::Sub(V::Mul(a, c), V::Mul(b, s)));
        V::Store(rotated + half + i, V::Fma(b, c, V::Mul(a, s)));
      },
      [&](std::int64_t i, int n) {
        const typename V::F a = V::LoadFirst(x + i, n), b = V::LoadFirst(x + half + i, n);
        const typename V::F c = V::LoadFirst(cos_sin + i, n), s = V::LoadFirst(sin + i, n);
        V::StoreFirst(rotated + i, n, V::Sub(V::Mul(a, c), V::Mul(b, s)));
        V::StoreFirst(rotated + half + i, n, V::Fma(b, c, V::Mul(a, s)));
      });
  for (int i = rotary_dim; i < head_dim; ++i) rotated[i] = x[i];
  if (out_dtype != DType::kF32) ConvertRow<V>(rotated, head_dim, out_dtype, out);
}

}  // namespace
}  // namespace thresher
