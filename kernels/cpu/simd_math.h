// Exponentials and tails over a vector type of simd_avx2.h or simd_avx512.h, and scalar conversions
// for the last few elements of a row.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/device/dtype.h"

namespace thresher {
// Unnamed on purpose, see simd_avx2.h.
namespace {

// 2^x. Relative error at most 1.7e-7 (minimax polynomial of degree 5, coefficient 0 exactly 1, so
// that Exp2(0) is 1). Below -126 the result is exactly 0; above 127 it is that of 127; a NaN stays.
template <typename V>
inline typename V::F Exp2(typename V::F x) {
  using F = typename V::F;
  const typename V::Mask tiny = V::Less(x, V::Set(-126.0f));
  // The clamps come first, so that a NaN in x is kept (Max and Min give their second operand).
  const F clamped = V::Min(V::Set(127.0f), V::Max(V::Set(-126.0f), x));
  const F n = V::Round(clamped);
  const F f = V::Sub(clamped, n);
  F p = V::Set(0.001326472731307149f);
  p = V::Fma(p, f, V::Set(0.009671512991189957f));
  p = V::Fma(p, f, V::Set(0.05550733581185341f));
  p = V::Fma(p, f, V::Set(0.24022242426872253f));
  p = V::Fma(p, f, V::Set(0.6931470036506653f));
  p = V::Fma(p, f, V::Set(1.0f));
  return V::ZeroWhere(tiny, V::ScaleByPowerOf2(p, n));
}

// e^x. Relative error at most 2.5e-7: ln 2 in two parts keeps the reduced argument exact to f32.
// Below -87.3 the result is exactly 0; above 88 it is that of 88; a NaN stays.
template <typename V>
inline typename V::F Exp(typename V::F x) {
  using F = typename V::F;
  const typename V::Mask tiny = V::Less(x, V::Set(-87.3f));
  const F clamped = V::Min(V::Set(88.0f), V::Max(V::Set(-87.3f), x));
  const F n = V::Round(V::Mul(clamped, V::Set(1.44269504f)));
  F f = V::Fma(n, V::Set(-0.693145751953125f), clamped);
  f = V::Fma(n, V::Set(-1.42860682030941723212e-6f), f);
  F p = V::Set(0.008290305733680725f);
  p = V::Fma(p, f, V::Set(0.0418979749083519f));
  p = V::Fma(p, f, V::Set(0.1666763722896576f));
  p = V::Fma(p, f, V::Set(0.4999915063381195f));
  p = V::Fma(p, f, V::Set(0.9999997019767761f));
  p = V::Fma(p, f, V::Set(1.0f));
  return V::ZeroWhere(tiny, V::ScaleByPowerOf2(p, n));
}

// Calls full(i) for each whole vector and tail(i, n) for the n < kLanes elements left.
template <typename V, typename Full, typename Tail>
inline void ForVectors(std::int64_t count, const Full& full, const Tail& tail) {
  std::int64_t i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) full(i);
  if (i < count) tail(i, static_cast<int>(count - i));
}

// Loads kLanes elements of `dtype` (f32, bf16 or f16) at index i as f32.
template <typename V, DType kType>
inline typename V::F LoadAs(const void* p, std::int64_t i) {
  if constexpr (kType == DType::kF32) {
    return V::Load(static_cast<const float*>(p) + i);
  } else if constexpr (kType == DType::kBF16) {
    return V::LoadBf16(static_cast<const std::uint16_t*>(p) + i);
  } else {
    return V::LoadF16(static_cast<const std::uint16_t*>(p) + i);
  }
}

template <typename V, DType kType>
inline void StoreAs(void* p, std::int64_t i, typename V::F x) {
  if constexpr (kType == DType::kF32) {
    V::Store(static_cast<float*>(p) + i, x);
  } else if constexpr (kType == DType::kBF16) {
    V::StoreBf16(static_cast<std::uint16_t*>(p) + i, x);
  } else {
    V::StoreF16(static_cast<std::uint16_t*>(p) + i, x);
  }
}

// The first n lanes only; goes through a buffer, for the tail of a row.
template <typename V, DType kType>
inline typename V::F LoadFirstAs(const void* p, std::int64_t i, int n) {
  if constexpr (kType == DType::kF32) {
    return V::LoadFirst(static_cast<const float*>(p) + i, n);
  } else {
    std::uint16_t buffer[V::kLanes] = {};
    std::memcpy(buffer, static_cast<const std::uint16_t*>(p) + i, n * sizeof(std::uint16_t));
    return LoadAs<V, kType>(buffer, 0);
  }
}

template <typename V, DType kType>
inline void StoreFirstAs(void* p, std::int64_t i, int n, typename V::F x) {
  if constexpr (kType == DType::kF32) {
    V::StoreFirst(static_cast<float*>(p) + i, n, x);
  } else {
    std::uint16_t buffer[V::kLanes];
    StoreAs<V, kType>(buffer, 0, x);
    std::memcpy(static_cast<std::uint16_t*>(p) + i, buffer, n * sizeof(std::uint16_t));
  }
}

// sum [count] += values [count] of `kType`, as they are.
template <typename V, DType kType>
inline void AddRow(const void* values, std::int64_t count, float* sum) {
  ForVectors<V>(
      count,
      [&](std::int64_t i) {
        V::Store(sum + i, V::Add(V::Load(sum + i), LoadAs<V, kType>(values, i)));
      },
      [&](std::int64_t i, int n) {
        V::StoreFirst(sum + i, n,
                      V::Add(V::LoadFirst(sum + i, n), LoadFirstAs<V, kType>(values, i, n)));
      });
}

}  // namespace
}  // namespace thresher
