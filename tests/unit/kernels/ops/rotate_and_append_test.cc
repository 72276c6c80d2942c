// RotateAndAppend against a double reference, for every backend of the binary.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/ops/transformer_ops.h"
#include "tests/support/reference/numbers.h"
#include "tests/support/tested_backends.h"

namespace thresher {
namespace {

constexpr double kU = 0x1p-24;
constexpr int kNumPositions = 50, kNumBlocks = 3, kBlockSize = 8;

// Inputs of one call and room for its outputs.
struct RotateCase {
  RotateCase(QkvShape shape_in, int rotary_dim, bool normed, DType kv_dtype)
      : shape(shape_in),
        row(std::int64_t{shape.num_heads + 2 * shape.num_kv_heads} * shape.head_dim),
        qkv(NormalValues(num_rows() * row, 2.0, 1)),
        cos_sin(NormalValues(kNumPositions * rotary_dim, 0.7, 2)),
        q_weight(NormalValues(shape.head_dim, 1.0, 3)),
        k_weight(NormalValues(shape.head_dim, 1.0, 4)),
        q(num_rows() * shape.num_heads * shape.head_dim, NAN),
        k_storage(kNumBlocks * shape.num_kv_heads * kBlockSize * shape.head_dim, 0xffffffffu),
        v_storage(k_storage) {
    rotary = {TensorView::Of(cos_sin.data(), DType::kF32, kNumPositions, rotary_dim), rotary_dim};
    if (normed) {
      norm = {TensorView::Of(q_weight.data(), DType::kF32, shape.head_dim),
              TensorView::Of(k_weight.data(), DType::kF32, shape.head_dim), 1e-6f};
    }
    cache = {TensorView::Of(k_storage.data(), kv_dtype, kNumBlocks, shape.num_kv_heads, kBlockSize,
                            shape.head_dim),
             TensorView::Of(v_storage.data(), kv_dtype, kNumBlocks, shape.num_kv_heads, kBlockSize,
                            shape.head_dim)};
  }
  std::int64_t num_rows() const { return static_cast<std::int64_t>(positions.size()); }

  // qkv and q of `activation`; qkv is rounded to it first, q widened from it.
  absl::Status Run(Backend& backend, DType activation = DType::kF32) {
    std::unique_ptr<Stream> stream = backend.device().CreateStream().value();
    std::vector<std::uint32_t> in(qkv.size()), out(q.size(), 0xffffffffu);
    for (std::size_t i = 0; i < qkv.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      WriteElement(in.data(), activation, at, qkv[i]);
      qkv[i] = static_cast<float>(ReadElement(in.data(), activation, at));
    }
    absl::Status status = backend.ops().RotateAndAppend(
        TensorView::Of(in.data(), activation, num_rows(), row), shape, norm, rotary, positions,
        slots, TensorView::Of(out.data(), activation, num_rows(), shape.num_heads, shape.head_dim),
        cache, *stream);
    for (std::size_t i = 0; i < q.size(); ++i) {
      q[i] = static_cast<float>(ReadElement(out.data(), activation, static_cast<std::int64_t>(i)));
    }
    return status;
  }

  // Head `head` of row `token` after norm and rotation.
  std::vector<double> Rotated(std::int64_t token, int head, const TensorView& weight) const {
    const float* x = qkv.data() + token * row + std::int64_t{head} * shape.head_dim;
    std::vector<double> y(x, x + shape.head_dim);
    if (weight.data != nullptr) {
      double sum = 0;
      for (const double value : y) sum += value * value;
      const double factor = 1 / std::sqrt(sum / shape.head_dim + 1e-6f);
      for (int i = 0; i < shape.head_dim; ++i) y[i] *= factor * weight.as<float>()[i];
    }
    const int half = rotary.rotary_dim / 2;
    const float* table = cos_sin.data() + positions[token] * rotary.rotary_dim;
    for (int i = 0; i < half; ++i) {
      const double a = y[i], b = y[half + i], c = table[i], s = table[half + i];
      y[i] = a * c - b * s;
      y[half + i] = b * c + a * s;
    }
    return y;
  }

  std::int64_t ElementOf(std::int64_t slot, int head) const {
    return ((slot / kBlockSize * shape.num_kv_heads + head) * kBlockSize + slot % kBlockSize) *
           shape.head_dim;
  }

  std::vector<std::int32_t> positions = {0, 1, 49, 7, 7};
  std::vector<std::int64_t> slots = {0, 23, 9, -1, 8};
  QkvShape shape;
  std::int64_t row;
  std::vector<float> qkv, cos_sin, q_weight, k_weight, q;
  std::vector<std::uint32_t> k_storage, v_storage;
  RotaryTable rotary;
  QkNorm norm;
  KvCacheLayer cache;
};

class RotateAndAppendTest : public testing::TestWithParam<BackendVariant> {
 protected:
  void SetUp() override {
    if (!MachineRuns(GetParam()))
      GTEST_SKIP() << "NOT RUN: this machine lacks the device or the instruction set";
    backend_ = MakeTestedBackend(GetParam());
  }
  std::unique_ptr<Backend> backend_;
};

// Two products and a sum of values of at most |y| · |table| each, after a norm of relative error
// (head_dim / 8 + 16) u (see transformer_ops_test.cc); then the rounding to the cache.
double Bound(const RotateCase& test, const std::vector<double>& y, int i, DType dtype) {
  double largest = 0;
  for (const double value : y) largest = std::max(largest, std::fabs(value));
  return (test.shape.head_dim / 8.0 + 24) * kU * 8 * largest +
         1.01 * RoundingOf(dtype) * std::fabs(y[i]) + (dtype == DType::kF16 ? 0x1p-25 : 0);
}

void ExpectRight(const RotateCase& test, DType activation = DType::kF32) {
  const QkvShape& shape = test.shape;
  const DType dtype = test.cache.k.dtype;
  for (std::int64_t token = 0; token < test.num_rows(); ++token) {
    for (int head = 0; head < shape.num_heads; ++head) {
      const std::vector<double> y = test.Rotated(token, head, test.norm.q_weight);
      for (int i = 0; i < shape.head_dim; ++i) {
        ASSERT_NEAR(test.q[(token * shape.num_heads + head) * shape.head_dim + i], y[i],
                    Bound(test, y, i, activation));
      }
    }
    if (test.slots[token] < 0) continue;
    for (int head = 0; head < shape.num_kv_heads; ++head) {
      const std::vector<double> k = test.Rotated(token, shape.num_heads + head, test.norm.k_weight);
      const float* v = test.qkv.data() + token * test.row +
                       std::int64_t{shape.num_heads + shape.num_kv_heads + head} * shape.head_dim;
      for (int i = 0; i < shape.head_dim; ++i) {
        const std::int64_t at = test.ElementOf(test.slots[token], head) + i;
        ASSERT_NEAR(ReadElement(test.k_storage.data(), dtype, at), k[i], Bound(test, k, i, dtype));
        float rounded = v[i];
        if (dtype == DType::kBF16) rounded = Bf16ToFloat(FloatToBf16(v[i]));
        if (dtype == DType::kF16) rounded = F16ToFloat(FloatToF16(v[i]));
        ASSERT_EQ(ReadElement(test.v_storage.data(), dtype, at), rounded);
      }
    }
  }
}

TEST_P(RotateAndAppendTest, MatchesTheReference) {
  for (const int head_dim : {8, 24, 64, 128, 256}) {
    for (const int rotary_dim : {head_dim, head_dim / 4 * 2, 0}) {
      for (const bool normed : {false, true}) {
        for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
          RotateCase test({.num_heads = 4, .num_kv_heads = 2, .head_dim = head_dim}, rotary_dim,
                          normed, dtype);
          ASSERT_TRUE(test.Run(*backend_).ok());
          ExpectRight(test);
        }
      }
    }
  }
}

TEST_P(RotateAndAppendTest, TakesAndGivesTheTypeOfActivations) {
  const DType activation = backend_->ops().activation_dtype();
  for (const int head_dim : {24, 64, 128}) {
    for (const int rotary_dim : {head_dim, head_dim / 4 * 2}) {
      for (const bool normed : {false, true}) {
        for (const DType dtype : {DType::kBF16, DType::kF16}) {
          RotateCase test({.num_heads = 6, .num_kv_heads = 3, .head_dim = head_dim}, rotary_dim,
                          normed, dtype);
          ASSERT_TRUE(test.Run(*backend_, activation).ok());
          ExpectRight(test, activation);
        }
      }
    }
  }
}

TEST_P(RotateAndAppendTest, WritesNoOtherSlot) {
  RotateCase test({.num_heads = 2, .num_kv_heads = 2, .head_dim = 64}, 64, false, DType::kF32);
  ASSERT_TRUE(test.Run(*backend_).ok());
  for (std::int64_t slot = 0; slot < kNumBlocks * kBlockSize; ++slot) {
    const bool written = slot == 0 || slot == 23 || slot == 9 || slot == 8;
    for (int head = 0; head < 2; ++head) {
      for (const auto* storage : {&test.k_storage, &test.v_storage}) {
        EXPECT_EQ((*storage)[test.ElementOf(slot, head)] != 0xffffffffu, written) << slot;
      }
    }
  }
}

TEST_P(RotateAndAppendTest, RoundsHalfwayValuesToEven) {
  RotateCase test({.num_heads = 1, .num_kv_heads = 1, .head_dim = 8}, 0, false, DType::kBF16);
  // 1 + 2^-8 lies halfway between 1 and 1 + 2^-7; 1 + 3 · 2^-8 halfway to 1 + 2^-6.
  const float values[] = {1 + 0x1p-8f, 1 + 0x3p-8f, -1 - 0x1p-8f, 0x1.fffffep127f,
                          INFINITY,    NAN,         0x1p-130f,    1 + 0x1.1p-8f};
  std::copy(std::begin(values), std::end(values), test.qkv.begin() + 16);
  ASSERT_TRUE(test.Run(*backend_).ok());
  const float expected[] = {1, 1 + 0x1p-6f, -1, INFINITY, INFINITY, NAN, 0x1p-130f, 1 + 0x1p-7f};
  for (int i = 0; i < 8; ++i) {
    const double value = ReadElement(test.v_storage.data(), DType::kBF16, i);
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(value));
    } else {
      EXPECT_EQ(value, expected[i]) << i;
    }
  }
}

TEST_P(RotateAndAppendTest, BadArgumentsAreNamed) {
  const QkvShape shape = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 16};
  const auto message_of = [&](const auto& spoil) {
    RotateCase test(shape, 16, true, DType::kBF16);
    spoil(test);
    return std::string(test.Run(*backend_).message());
  };
  EXPECT_EQ(message_of([](RotateCase& test) { test.positions[1] = 50; }),
            "rotate_and_append: positions is 50, expected 0 to 49");
  EXPECT_EQ(message_of([](RotateCase& test) { test.slots[2] = 24; }),
            "rotate_and_append: slot_mapping is 24, expected -1 to 23");
  EXPECT_EQ(message_of([](RotateCase& test) { test.rotary.rotary_dim = 18; }),
            "rotate_and_append: rotary_dim is 18, expected 0 to 16");
  EXPECT_EQ(message_of([](RotateCase& test) { test.norm.k_weight.data = nullptr; }),
            "rotate_and_append: k_weight f32[16] has no data");
  EXPECT_EQ(message_of([](RotateCase& test) { test.cache.v.dtype = DType::kF16; }),
            "rotate_and_append: cache.v is f16[3, 1, 8, 16], expected bf16[3, 1, 8, 16]");
  EXPECT_EQ(message_of([](RotateCase& test) { test.shape.head_dim = 264; }),
            "rotate_and_append: head_dim is 264, expected 2 to 256");
}

INSTANTIATE_TEST_SUITE_P(Backends, RotateAndAppendTest, testing::ValuesIn(TestedBackends()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace thresher
