// Products of every format, instruction set and number of rows against the double reference.
#include "kernels/cpu/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/gemm_product.h"
#include "tests/support/gemm_reference.h"
#include "tests/support/random_weight.h"

namespace thresher {
namespace {

constexpr std::int64_t kRowCounts[] = {1, 2, 3, 7, 8, 9, 16, 17, 32, 33, 64, 513};
constexpr std::int64_t kFewRowCounts[] = {1, 5, 16, 35};

void ExpectClose(std::span<const float> out, const ReferenceProduct& wanted, double bound,
                 const std::string& what) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double error = std::abs(static_cast<double>(out[i]) - wanted.values[i]);
    if (!(error <= bound * wanted.magnitudes[i])) {
      ADD_FAILURE() << what << ": out[" << i << "] = " << out[i] << ", not " << wanted.values[i]
                    << "; off by " << error << ", bound " << bound * wanted.magnitudes[i];
      return;
    }
  }
}

// The parts with every option and each number of rows, against the reference.
void ExpectMatchesReference(std::span<const WeightSource> parts,
                            std::span<const std::int64_t> row_counts, bool with_bias) {
  const ReferenceWeight exact = MakeReference(parts, Bf16Rounding::kNone);
  const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  const std::int64_t max_rows = row_counts.back();
  const std::vector<float> x = RandomBf16Values(size(max_rows * exact.cols), 7);
  const std::vector<float> bias = RandomBf16Values(with_bias ? size(exact.rows) : 0, 8);
  const auto reference = [&](Bf16Rounding rounding) {
    return MultiplyReference(MakeReference(parts, rounding), x, max_rows, bias);
  };
  const ReferenceProduct as_stored = reference(Bf16Rounding::kNone);
  const ReferenceProduct plain_rounded = reference(Bf16Rounding::kPlain);
  const ReferenceProduct all_rounded = reference(Bf16Rounding::kAll);
  for (const CpuGemmOptions& options : AllGemmOptions()) {
    GemmProduct product(parts, options);
    GemmInput input(x, exact.cols, options);
    for (const std::int64_t num_rows : row_counts) {
      const std::vector<float> out = product.Multiply(input.Rows(0, num_rows), bias);
      const bool bf16 = CpuGemmInputDType(options) == DType::kBF16;
      const bool integers =
          num_rows <= kMaxPanelRows || options.many_rows == ManyRowsGemm::kAsFewRows;
      const ReferenceProduct& wanted = !bf16 ? as_stored : integers ? plain_rounded : all_rounded;
      ExpectClose(out, wanted, RelativeBound(exact.cols),
                  Describe(options) + ", " + std::to_string(num_rows) + " rows");
    }
  }
}

class FormatTest : public testing::TestWithParam<WeightFormat> {};
INSTANTIATE_TEST_SUITE_P(Gemm, FormatTest, testing::ValuesIn(kAllWeightFormats),
                         [](const auto& test) { return std::string(Name(test.param)); });

// 37 output rows: two tiles and part of a third. 768 columns: more than the built-in product
// unpacks at once, and whole super-blocks.
TEST_P(FormatTest, MatchesTheReferenceForAnyNumberOfRows) {
  const RandomWeight weight = RandomWeight::Make(GetParam(), 37, 768, 1);
  const WeightSource parts[] = {weight.source()};
  ExpectMatchesReference(parts, kRowCounts, false);
}

// Fewer output rows than threads' tiles, one block of columns, and a bias.
TEST_P(FormatTest, MatchesTheReferenceOnOneBlock) {
  const RandomWeight weight = RandomWeight::Make(GetParam(), 5, BlockElements(GetParam()), 2);
  const WeightSource parts[] = {weight.source()};
  ExpectMatchesReference(parts, kFewRowCounts, true);
}

// A rank's share: columns that start and end within a block, rows of its own order.
TEST_P(FormatTest, TakesUnalignedColumnsAndOrderedRows) {
  const RandomWeight weight = RandomWeight::Make(GetParam(), 40, 768, 3);
  const std::int32_t order[] = {39, 0, 7, 7, 20, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15};
  WeightSource source = weight.source();
  source.row_order = order;
  source.first_col = 37;
  source.num_cols = 333;
  const WeightSource parts[] = {source};
  ExpectMatchesReference(parts, kFewRowCounts, false);
}

// A rank's share in whole groups that are not whole super-blocks.
TEST_P(FormatTest, TakesColumnsOfWholeGroups) {
  const RandomWeight weight = RandomWeight::Make(GetParam(), 33, 768, 4);
  WeightSource source = weight.source();
  source.first_col = 192;
  source.num_cols = 384;
  const WeightSource parts[] = {source};
  ExpectMatchesReference(parts, kFewRowCounts, true);
}

TEST(GemmTest, StacksPartsOfDifferentFormats) {
  std::vector<RandomWeight> weights;
  std::vector<WeightSource> parts;
  for (const WeightFormat format : kAllWeightFormats) {
    weights.push_back(RandomWeight::Make(format, 19, 256, 5));
  }
  for (const RandomWeight& weight : weights) parts.push_back(weight.source());
  ExpectMatchesReference(parts, kFewRowCounts, true);
}

// Input that bf16 would round: only f32 paths take it, and must not round it.
TEST(GemmTest, F32InputIsNotRounded) {
  const RandomWeight weight = RandomWeight::Make(WeightFormat::kQ4_1, 37, 96, 6);
  const WeightSource parts[] = {weight.source()};
  std::vector<float> x(35 * 96);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  const ReferenceProduct wanted =
      MultiplyReference(MakeReference(parts, Bf16Rounding::kNone), x, 35, {});
  for (const CpuGemmOptions& options : AllGemmOptions()) {
    if (CpuGemmInputDType(options) != DType::kF32) continue;
    GemmProduct product(parts, options);
    GemmInput input(x, 96, options);
    for (const std::int64_t num_rows : kFewRowCounts) {
      ExpectClose(product.Multiply(input.Rows(0, num_rows), {}), wanted, RelativeBound(96),
                  Describe(options));
    }
  }
}

class BatchTest : public testing::TestWithParam<WeightFormat> {};
INSTANTIATE_TEST_SUITE_P(Gemm, BatchTest, testing::ValuesIn(kAllWeightFormats),
                         [](const auto& test) { return std::string(Name(test.param)); });

// Equality in bits: a row alone, then as the first, the last and a middle row of a batch.
TEST_P(BatchTest, ARowDoesNotDependOnItsBatch) {
  const std::int64_t cols = 768, rows = 37, max_rows = 100;
  const RandomWeight weight = RandomWeight::Make(GetParam(), rows, cols, 9);
  const WeightSource parts[] = {weight.source()};
  const std::vector<float> x = RandomBf16Values(static_cast<std::size_t>(max_rows * cols), 10);
  for (const CpuGemmOptions& options : AllGemmOptions()) {
    GemmProduct product(parts, options);
    GemmInput input(x, cols, options);
    const bool built_in = product.weight().forms().onednn == nullptr;
    const bool f32 = CpuGemmInputDType(options) == DType::kF32;
    const bool one_for_all = f32 || options.many_rows == ManyRowsGemm::kAsFewRows;
    // The built-in f32 products are one for all numbers of rows, and so are those asked to be.
    // Else built-in bf16 has one up to kMaxPanelRows and one above. oneDNN's order is its own.
    const std::int64_t last = built_in && one_for_all ? max_rows : kMaxPanelRows;
    if (!built_in && product.weight().forms().panels.empty()) continue;
    const std::vector<float> all = product.Multiply(input.Rows(0, last), {});
    for (std::int64_t count = 1; count <= last; count += count < 10 ? 1 : 7) {
      const std::int64_t first = last - count;
      const std::vector<float> some = product.Multiply(input.Rows(first, count), {});
      const std::vector<float> wanted(all.begin() + first * rows, all.end());
      EXPECT_EQ(some, wanted) << Describe(options) << ", " << count << " rows";
    }
  }
}

// What --batch-invariant asks for: each row of each batch, in bits, as it is alone. More rows than
// stay in cache at once, a bias, and parts of several formats beside one that has its own sums.
TEST(GemmTest, AsFewRowsGivesEveryBatchTheBitsOfARowAlone) {
  constexpr std::int64_t kCounts[] = {1, 2, 5, 8, 9, 31, 32, 33, 64, 100, 512};
  constexpr std::int64_t kCols = 768, kMost = 512;
  std::vector<RandomWeight> weights;
  std::vector<WeightSource> parts;
  for (const WeightFormat format : kAllWeightFormats) {
    weights.push_back(RandomWeight::Make(format, 19, kCols, 13));
  }
  for (const RandomWeight& weight : weights) parts.push_back(weight.source());
  const std::vector<float> x = RandomBf16Values(static_cast<std::size_t>(kMost * kCols), 14);
  for (const CpuGemmOptions& options : AllGemmOptions()) {
    if (options.many_rows != ManyRowsGemm::kAsFewRows) continue;
    GemmProduct product(parts, options);
    GemmInput input(x, kCols, options);
    const auto rows = static_cast<std::size_t>(product.weight().rows());
    const std::vector<float> bias = RandomBf16Values(rows, 15);
    std::vector<float> alone;
    for (std::int64_t row = 0; row < kMost; ++row) {
      const std::vector<float> out = product.Multiply(input.Rows(row, 1), bias);
      alone.insert(alone.end(), out.begin(), out.end());
    }
    for (const std::int64_t count : kCounts) {
      const std::vector<float> some = product.Multiply(input.Rows(0, count), bias);
      EXPECT_EQ(std::memcmp(some.data(), alone.data(), some.size() * sizeof(float)), 0)
          << Describe(options) << ", " << count << " rows";
    }
  }
}

TEST(GemmTest, NumberOfThreadsDoesNotChangeTheResult) {
  const RandomWeight weight = RandomWeight::Make(WeightFormat::kQ5_K, 150, 512, 11);
  const WeightSource parts[] = {weight.source()};
  const std::vector<float> x = RandomBf16Values(40 * 512, 12);
  for (const CpuGemmOptions& options : AllGemmOptions()) {
    if (options.many_rows == ManyRowsGemm::kOneDnn) continue;
    GemmInput input(x, 512, options);
    GemmProduct one(parts, options, 1);
    for (const int threads : {2, 3, 5}) {
      GemmProduct several(parts, options, threads);
      for (const std::int64_t num_rows : {1, 8, 40}) {
        EXPECT_EQ(one.Multiply(input.Rows(0, num_rows), {}),
                  several.Multiply(input.Rows(0, num_rows), {}))
            << Describe(options) << ", " << threads << " threads, " << num_rows << " rows";
      }
    }
  }
}

}  // namespace
}  // namespace thresher
