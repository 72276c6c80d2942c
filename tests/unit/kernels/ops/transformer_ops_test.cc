// The ops of a layer against double references, for every backend of the binary.
#include "kernels/ops/transformer_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "tests/support/reference/numbers.h"
#include "tests/support/tested_backends.h"

namespace thresher {
namespace {

constexpr double kU = 0x1p-24;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class TransformerOpsTest : public testing::TestWithParam<BackendVariant> {
 protected:
  void SetUp() override {
    if (!MachineRuns(GetParam()))
      GTEST_SKIP() << "NOT RUN: this machine lacks the device or the instruction set";
    backend_ = MakeTestedBackend(GetParam());
    stream_ = backend_->device().CreateStream().value();
  }
  TransformerOps& ops() { return backend_->ops(); }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
};

TensorView View(std::vector<float>& values, std::int64_t rows) {
  const auto count = static_cast<std::int64_t>(values.size());
  return TensorView::Of(values.data(), DType::kF32, rows, count / rows);
}
TensorView View(std::vector<float>& values) {
  return TensorView::Of(values.data(), DType::kF32, static_cast<std::int64_t>(values.size()));
}

// A tensor of any dtype whose elements start as NaN.
struct Output {
  Output(DType dtype, std::int64_t rows, std::int64_t cols)
      : storage(rows * cols, 0xffffffffu),
        view(TensorView::Of(storage.data(), dtype, rows, cols)) {}
  double at(std::int64_t index) const { return ReadElement(view.data, view.dtype, index); }
  std::vector<std::uint32_t> storage;
  TensorView view;
};

constexpr std::int64_t kWidths[] = {1, 7, 8, 16, 17, 63, 64, 100, 576, 1536, 4099};

// x / rms: the sum of c squares errs by (c / 16 + 8) u at most in any order that keeps 16 chains or
// fewer… half of that in its square root; then one division, one root and two products.
double NormBound(std::int64_t c, double out) {
  return std::fabs(out) * ((static_cast<double>(c) / 8 + 16) * kU);
}

TEST_P(TransformerOpsTest, RmsNormMatchesTheReference) {
  for (const std::int64_t c : kWidths) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const std::int64_t rows = 3;
      std::vector<float> x = NormalValues(rows * c, 3.0, 1), weight = NormalValues(c, 1.0, 2);
      Output out(dtype, rows, c);
      ASSERT_TRUE(ops().RmsNorm(View(x, rows), View(weight), 1e-5f, out.view, *stream_).ok());
      for (std::int64_t row = 0; row < rows; ++row) {
        double sum = 0;
        for (std::int64_t i = 0; i < c; ++i) sum += std::pow(x[row * c + i], 2.0);
        const double factor = 1 / std::sqrt(sum / static_cast<double>(c) + 1e-5f);
        for (std::int64_t i = 0; i < c; ++i) {
          const double expected = x[row * c + i] * factor * weight[i];
          ASSERT_NEAR(out.at(row * c + i), expected,
                      NormBound(c, expected) + 1.01 * RoundingOf(dtype) * std::fabs(expected))
              << "width " << c << " element " << i;
        }
      }
    }
  }
}

TEST_P(TransformerOpsTest, RmsNormMayWriteItsInput) {
  std::vector<float> x = NormalValues(2 * 100, 1.0, 1), weight = NormalValues(100, 1.0, 2);
  Output apart(DType::kF32, 2, 100);
  ASSERT_TRUE(ops().RmsNorm(View(x, 2), View(weight), 0, apart.view, *stream_).ok());
  ASSERT_TRUE(ops().RmsNorm(View(x, 2), View(weight), 0, View(x, 2), *stream_).ok());
  EXPECT_EQ(std::memcmp(x.data(), apart.view.data, x.size() * sizeof(float)), 0);
}

TEST_P(TransformerOpsTest, AddRmsNormIsTheSumThenTheNorm) {
  for (const std::int64_t c : kWidths) {
    std::vector<float> x = NormalValues(4 * c, 1.0, 1), residual = NormalValues(4 * c, 1.0, 3);
    std::vector<float> weight = NormalValues(c, 1.0, 2), sum(4 * c);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = residual[i] + x[i];
    Output fused(DType::kBF16, 4, c), apart(DType::kBF16, 4, c);
    ASSERT_TRUE(ops().RmsNorm(View(sum, 4), View(weight), 1e-6f, apart.view, *stream_).ok());
    ASSERT_TRUE(
        ops()
            .AddRmsNorm(View(x, 4), View(residual, 4), View(weight), 1e-6f, fused.view, *stream_)
            .ok());
    EXPECT_EQ(residual, sum) << c;
    EXPECT_EQ(fused.storage, apart.storage) << c;
  }
}

TEST_P(TransformerOpsTest, SiluMulMatchesTheReference) {
  for (const std::int64_t c : kWidths) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      std::vector<float> gate_up = NormalValues(2 * 2 * c, 0.9, 9);
      const float extremes[] = {0.0f, -0.0f, 100.0f, -100.0f, -87.5f, 1e38f, -1e38f, 1e-30f};
      for (std::int64_t i = 0; i < std::min<std::int64_t>(c, 8); ++i) gate_up[i] = extremes[i];
      Output out(dtype, 2, c);
      ASSERT_TRUE(ops().SiluMul(View(gate_up, 2), out.view, *stream_).ok());
      for (std::int64_t row = 0; row < 2; ++row) {
        for (std::int64_t i = 0; i < c; ++i) {
          const double gate = gate_up[row * 2 * c + i], up = gate_up[row * 2 * c + c + i];
          const double expected = gate / (1 + std::exp(-gate)) * up;
          // The exponential errs by 2.5e-7; sum, quotient and product add 3 u. Below −88 the result
          // is 0, where silu is less than 1e-36.
          const double bound =
              std::fabs(expected) * (5e-7 + 1.01 * RoundingOf(dtype)) + 1e-36 * (1 + std::fabs(up));
          ASSERT_NEAR(out.at(row * c + i), expected, bound) << "gate " << gate;
        }
      }
    }
  }
}

// What lies between ops may come in their narrow type: the same numbers in f32 give the same bits.
TEST_P(TransformerOpsTest, NarrowActivationsHaveTheBitsOfTheSameNumbersInF32) {
  const DType activation = ops().activation_dtype();
  if (activation == DType::kF32) GTEST_SKIP() << "activations are f32 on this backend";
  for (const std::int64_t c : kWidths) {
    std::vector<float> x = NormalValues(4 * c, 1.0, 1), gate_up = NormalValues(4 * 2 * c, 2.0, 9);
    std::vector<float> weight = NormalValues(c, 1.0, 2), residual = NormalValues(4 * c, 1.0, 3);
    const auto narrow = [&](std::vector<float>& values) {
      Output tensor(activation, 4, static_cast<std::int64_t>(values.size()) / 4);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        WriteElement(tensor.view.data, activation, at, values[i]);
        values[i] = static_cast<float>(tensor.at(at));
      }
      return tensor;
    };
    Output narrow_x = narrow(x), narrow_gate_up = narrow(gate_up);
    std::vector<float> same_residual = residual;
    Output a(activation, 4, c), b(activation, 4, c);
    const TensorView of_weight = View(weight);
    ASSERT_TRUE(
        ops().AddRmsNorm(View(x, 4), View(residual, 4), of_weight, 0, a.view, *stream_).ok());
    ASSERT_TRUE(
        ops()
            .AddRmsNorm(narrow_x.view, View(same_residual, 4), of_weight, 0, b.view, *stream_)
            .ok());
    EXPECT_EQ(a.storage, b.storage) << c;
    EXPECT_EQ(residual, same_residual) << c;
    ASSERT_TRUE(ops().SiluMul(View(gate_up, 4), a.view, *stream_).ok());
    ASSERT_TRUE(ops().SiluMul(narrow_gate_up.view, b.view, *stream_).ok());
    EXPECT_EQ(a.storage, b.storage) << c;
  }
}

// The model's widest rows too, which no thread holds whole.
TEST_P(TransformerOpsTest, WideRowsAreNormedWhole) {
  const std::int64_t c = 40001;
  std::vector<float> x = NormalValues(c, 1.0, 1), residual = NormalValues(c, 1.0, 3);
  std::vector<float> weight = NormalValues(c, 1.0, 2);
  double sum = 0;
  std::vector<double> added(c);
  for (std::int64_t i = 0; i < c; ++i) {
    added[i] = x[i] + residual[i];
    sum += added[i] * added[i];
  }
  Output out(DType::kF32, 1, c);
  ASSERT_TRUE(
      ops().AddRmsNorm(View(x, 1), View(residual, 1), View(weight), 0, out.view, *stream_).ok());
  for (std::int64_t i = 0; i < c; ++i) {
    EXPECT_EQ(residual[i], static_cast<float>(added[i]));
    const double expected = added[i] / std::sqrt(sum / static_cast<double>(c)) * weight[i];
    ASSERT_NEAR(out.at(i), expected, NormBound(c, expected)) << i;
  }
}

TEST_P(TransformerOpsTest, NanStaysNan) {
  std::vector<float> x(64, 1.0f), gate_up(64, 1.0f), weight(64, 1.0f);
  x[40] = gate_up[5] = kNan;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Output normed(dtype, 1, 64), gated(dtype, 1, 32);
    ASSERT_TRUE(ops().RmsNorm(View(x, 1), View(weight), 0, normed.view, *stream_).ok());
    ASSERT_TRUE(ops().SiluMul(View(gate_up, 1), gated.view, *stream_).ok());
    EXPECT_TRUE(std::isnan(normed.at(0)));
    EXPECT_TRUE(std::isnan(gated.at(5)));
    EXPECT_FALSE(std::isnan(gated.at(6)));
  }
}

TEST_P(TransformerOpsTest, GatherRowsCopies) {
  std::vector<float> x = NormalValues(5 * 33, 1.0, 1), out(3 * 33);
  const std::vector<std::int32_t> rows = {4, 0, 4};
  ASSERT_TRUE(ops().GatherRows(View(x, 5), rows, View(out, 3), *stream_).ok());
  for (int i = 0; i < 3; ++i) {
    for (int c = 0; c < 33; ++c) EXPECT_EQ(out[i * 33 + c], x[rows[i] * 33 + c]);
  }
  const std::vector<std::int32_t> outside = {4, 5, 4};
  EXPECT_EQ(ops().GatherRows(View(x, 5), outside, View(out, 3), *stream_).message(),
            "gather_rows: rows is 5, expected 0 to 4");
}

TEST_P(TransformerOpsTest, WrongShapesAreNamed) {
  std::vector<float> x(4 * 8), weight(8), narrow(7);
  Output out(DType::kF32, 4, 8), f16(DType::kF16, 4, 8);
  EXPECT_EQ(ops().RmsNorm(View(x, 4), View(narrow), 0, out.view, *stream_).message(),
            "rms_norm: weight is f32[7], expected f32[8]");
  EXPECT_EQ(ops().RmsNorm(View(x, 4), View(weight), 0, f16.view, *stream_).message(),
            "rms_norm: out is f16[4, 8], expected f32 or bf16[4, 8]");
  EXPECT_EQ(ops().SiluMul(View(x, 4), out.view, *stream_).message(),
            ops().activation_dtype() == DType::kF32
                ? "silu_mul: gate_up is f32[4, 8], expected f32[4, 16]"
                : "silu_mul: gate_up is f32[4, 8], expected f32 or bf16[4, 16]");
  TensorView no_data = View(x, 4);
  no_data.data = nullptr;
  EXPECT_EQ(ops().RmsNorm(no_data, View(weight), 0, out.view, *stream_).message(),
            "rms_norm: x f32[4, 8] has no data");
}

INSTANTIATE_TEST_SUITE_P(Backends, TransformerOpsTest, testing::ValuesIn(TestedBackends()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace thresher
