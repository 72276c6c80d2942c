// Weights that follow from a seed: their numbers one by one, their spread, and that neither cutting
// nor packing changes them.
#include "kernels/cpu/generated_weight.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu/weight_rows.h"
#include "tests/support/cpu_backends.h"
#include "tests/support/reference/numbers.h"

namespace thresher {
namespace {

constexpr float kDeviation = 0.03125f;

WeightSource Generated(std::int64_t rows, std::int64_t cols, std::uint64_t seed = 11) {
  return {.format = WeightFormat::kBF16,
          .rows = rows,
          .cols = cols,
          .generated = GeneratedNumbers{.seed = seed, .deviation = kDeviation}};
}

// [rows, cols] of the rows wanted.
std::vector<float> Numbers(const WeightSource& source) {
  const absl::StatusOr<WeightRows> rows = WeightRows::Create(source, "weight");
  EXPECT_TRUE(rows.ok()) << rows.status();
  std::vector<float> numbers(static_cast<std::size_t>(rows->rows() * rows->cols()));
  for (std::int64_t i = 0; i < rows->rows(); ++i) {
    rows->Dequantize(i, numbers.data() + i * rows->cols());
  }
  return numbers;
}

// bf16 nearest to `value`, ties to even, found among its neighbours in double.
float NearestBf16(double value) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // [0.5, 1) · 2^exponent: 8 bits
  return static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(fraction, 8)), exponent - 8));
}

// Counter (column / 4, row), key the seed; word column % 4; the sum of its bytes.
TEST(GeneratedWeight, IsTheByteSumOfItsCounter) {
  const std::uint64_t seed = 0x0123456789abcdefu;
  const std::vector<float> numbers = Numbers(Generated(7, 10, seed));
  const float unit = static_cast<float>(kDeviation / std::sqrt(4 * (256.0 * 256 - 1) / 12));
  for (std::uint32_t row = 0; row < 7; ++row) {
    for (std::uint32_t col = 0; col < 10; ++col) {
      const std::uint32_t word = Philox({col / 4, row, 0, 0}, {0x89abcdefu, 0x01234567u})[col % 4];
      int sum = -510;
      for (int byte = 0; byte < 4; ++byte) sum += static_cast<int>(word >> (8 * byte) & 255u);
      const float product = static_cast<float>(sum) * unit;
      EXPECT_EQ(numbers[row * 10 + col], NearestBf16(product)) << row << ", " << col;
    }
  }
}

// A million numbers: the mean's deviation is 1e-3 of the numbers' own, that of the variance
// 1.3e-3 of it (a sum of four bytes has the kurtosis 2.7), that of the neighbours' product 1e-3.
TEST(GeneratedWeight, IsNormalLikeAndIndependent) {
  const std::vector<float> numbers = Numbers(Generated(1000, 1000));
  double sum = 0, squares = 0, fourths = 0, across = 0, down = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double x = numbers[i] / kDeviation;
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
    if (i % 1000 > 0) across += x * numbers[i - 1] / kDeviation;
    if (i >= 1000) down += x * numbers[i - 1000] / kDeviation;
  }
  EXPECT_NEAR(sum / 1e6, 0, 5e-3);
  EXPECT_NEAR(squares / 1e6, 1, 7e-3);
  EXPECT_NEAR(fourths / 1e6, 2.7, 0.05);
  EXPECT_NEAR(across / 1e6, 0, 5e-3);
  EXPECT_NEAR(down / 1e6, 0, 5e-3);
  EXPECT_NE(numbers, Numbers(Generated(1000, 1000, 12)));
}

TEST(GeneratedWeight, IsTheSameHoweverItIsCut) {
  const std::vector<float> whole = Numbers(Generated(20, 37));
  for (const std::int64_t first_col : {0, 1, 4, 7, 33}) {
    for (const std::int64_t num_cols : {1, 2, 4}) {
      const std::int32_t order[] = {3, 12, 3, 0};
      WeightSource part = Generated(13, 37);
      part.generated->first_row = 5;
      part.row_order = order;
      part.first_col = first_col;
      part.num_cols = num_cols;
      const std::vector<float> numbers = Numbers(part);
      ASSERT_EQ(numbers.size(), static_cast<std::size_t>(4 * num_cols));
      for (std::int64_t i = 0; i < 4 * num_cols; ++i) {
        const std::int64_t row = 5 + order[i / num_cols], col = first_col + i % num_cols;
        EXPECT_EQ(numbers[static_cast<std::size_t>(i)],
                  whole[static_cast<std::size_t>(row * 37 + col)])
            << row << ", " << col;
      }
    }
  }
}

// Products and look-ups are those of the same numbers out of memory, to the bit.
class GeneratedProducts : public testing::TestWithParam<CpuVariant> {};

TEST_P(GeneratedProducts, EqualThoseOfStoredNumbers) {
  if (!MachineRuns(GetParam())) GTEST_SKIP() << "this machine lacks " << NameOf(GetParam());
  constexpr std::int64_t kRows = 50, kCols = 64;
  const std::unique_ptr<Backend> backend = MakeCpuBackend(GetParam());
  const std::unique_ptr<Stream> stream = backend->device().CreateStream().value();
  const std::vector<float> numbers = Numbers(Generated(kRows, kCols));
  std::vector<std::uint16_t> bits;
  for (const float number : numbers) bits.push_back(FloatToBf16(number));
  const WeightSource made = Generated(kRows, kCols);
  const WeightSource stored = {.bytes = reinterpret_cast<const std::byte*>(bits.data()),
                               .format = WeightFormat::kBF16,
                               .rows = kRows,
                               .cols = kCols};
  const auto look_up = [&](const WeightSource& source) {
    const auto table = backend->ops().PackEmbedding(source).value();
    const std::int32_t ids[] = {49, 0, 7};
    std::vector<float> out(3 * kCols);
    EXPECT_TRUE(backend->ops()
                    .Embed(*table, ids, TensorView::Of(out.data(), DType::kF32, 3, kCols), *stream)
                    .ok());
    return out;
  };
  EXPECT_EQ(look_up(made), look_up(stored));

  std::vector<std::uint32_t> x(3 * kCols);
  const DType dtype = backend->ops().gemm_input_dtype();
  for (std::int64_t i = 0; i < 3 * kCols; ++i) {
    WriteElement(x.data(), dtype, i, static_cast<double>(i % 17) - 8);
  }
  const auto multiply = [&](const WeightSource& source) {
    const WeightSource parts[] = {source, source};
    const auto weight = backend->ops().PackWeight(parts).value();
    EXPECT_TRUE(backend->ops().Reserve(3).ok());
    std::vector<float> out(3 * 2 * kRows);
    const absl::Status status =
        backend->ops().MatMul(TensorView::Of(x.data(), dtype, 3, kCols), *weight, {},
                              TensorView::Of(out.data(), DType::kF32, 3, 2 * kRows), *stream);
    EXPECT_TRUE(status.ok()) << status;
    return out;
  };
  EXPECT_EQ(multiply(made), multiply(stored));
}

INSTANTIATE_TEST_SUITE_P(Variants, GeneratedProducts, testing::ValuesIn(kCpuVariants),
                         [](const auto& info) { return NameOf(info.param); });

TEST(GeneratedWeight, RefusesWhatCannotBe) {
  const auto refusal = [](const WeightSource& source) {
    return std::string(WeightRows::Create(source, "w").status().message());
  };
  const std::byte byte{};
  WeightSource source = Generated(4, 4);
  source.bytes = &byte;
  EXPECT_EQ(refusal(source), "w: generated numbers have no bytes and are BF16");
  source = Generated(4, 4);
  source.format = WeightFormat::kF32;
  EXPECT_EQ(refusal(source), "w: generated numbers have no bytes and are BF16");
  for (const float deviation : {0.0f, -1.0f, std::numeric_limits<float>::infinity()}) {
    source = Generated(4, 4);
    source.generated->deviation = deviation;
    EXPECT_NE(refusal(source).find("is not above zero and finite"), std::string::npos);
  }
  source = Generated(4, 4);
  source.generated->first_row = -1;
  EXPECT_EQ(refusal(source), "w: 4 rows from -1 are not within 1073741823");
}

}  // namespace
}  // namespace thresher
