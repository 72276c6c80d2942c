// Products and look-ups on a GPU: every format of the file against the double reference.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/support/gemm_reference.h"
#include "tests/support/random_weight.h"
#include "tests/support/reference/numbers.h"
#include "tests/support/tested_backends.h"

namespace thresher {
namespace {

class CudaProducts : public testing::TestWithParam<BackendVariant> {
 protected:
  void SetUp() override {
    if (!MachineRuns(GetParam())) GTEST_SKIP() << "NO CUDA DRIVER: not run";
    backend_ = MakeTestedBackend(GetParam());
    stream_ = backend_->device().CreateStream().value();
  }

  // [num_rows, weight rows], widened from `out_dtype`
  std::vector<float> Multiply(const PackedWeight& weight, const std::vector<float>& x,
                              std::int64_t num_rows, std::vector<float> bias, DType out_dtype) {
    const DType dtype = backend_->ops().gemm_input_dtype();
    const auto count = static_cast<std::size_t>(num_rows * weight.cols());
    std::vector<std::uint32_t> storage(count);
    for (std::size_t i = 0; i < count; ++i) {
      WriteElement(storage.data(), dtype, static_cast<std::int64_t>(i), x[i]);
    }
    std::vector<std::uint32_t> written(static_cast<std::size_t>(num_rows * weight.rows()),
                                       0xffffffffu);
    const TensorView no_bias;
    const absl::Status status = backend_->ops().MatMul(
        TensorView::Of(storage.data(), dtype, num_rows, weight.cols()), weight,
        bias.empty() ? no_bias : TensorView::Of(bias.data(), DType::kF32, weight.rows()),
        TensorView::Of(written.data(), out_dtype, num_rows, weight.rows()), *stream_);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<float> out(written.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] =
          static_cast<float>(ReadElement(written.data(), out_dtype, static_cast<std::int64_t>(i)));
    }
    return out;
  }

  void ExpectMatchesReference(std::span<const WeightSource> parts, bool with_bias) {
    const auto weight = backend_->ops().PackWeight(parts);
    ASSERT_TRUE(weight.ok()) << weight.status();
    ASSERT_TRUE(backend_->ops().Reserve(200).ok());
    const std::int64_t cols = (*weight)->cols(), rows = (*weight)->rows();
    const std::vector<float> x = RandomBf16Values(static_cast<std::size_t>(200 * cols), 7);
    const std::vector<float> bias =
        RandomBf16Values(with_bias ? static_cast<std::size_t>(rows) : 0, 8);
    const ReferenceProduct wanted =
        MultiplyReference(MakeReference(parts, GetParam().full_precision() ? Bf16Rounding::kNone
                                                                           : Bf16Rounding::kAll),
                          x, 200, bias);
    for (const DType out_dtype : {DType::kF32, backend_->ops().activation_dtype()}) {
      for (const std::int64_t num_rows : {1, 2, 3, 9, 17, 64, 200}) {
        const std::vector<float> out = Multiply(**weight, x, num_rows, bias, out_dtype);
        for (std::size_t i = 0; i < out.size(); ++i) {
          // Matrix units drop what lies below the last place of a sum instead of rounding it: twice
          // the error of a rounding. A product with a bias may be rounded twice, before it is added
          // and after; the biases are bf16 numbers, so that rounding them is exact.
          const double value = wanted.values[i];
          const double before = bias.empty() ? 0 : value - bias[i % bias.size()];
          const double stored =
              out_dtype == DType::kF32
                  ? 0
                  : 1.01 * RoundingOf(out_dtype) * (std::fabs(value) + std::fabs(before));
          const double bound = 2 * RelativeBound(cols) * wanted.magnitudes[i] + stored;
          ASSERT_TRUE(std::fabs(out[i] - wanted.values[i]) <= bound)
              << Name(parts[0].format) << ", " << num_rows << " rows to " << Name(out_dtype)
              << ", element " << i << ": " << out[i] << ", not " << wanted.values[i];
        }
      }
    }
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
};

TEST_P(CudaProducts, EveryFormatMatchesTheReference) {
  for (const WeightFormat format : kAllWeightFormats) {
    const RandomWeight weight = RandomWeight::Make(format, 40, 768, 1);
    const WeightSource parts[] = {weight.source()};
    ExpectMatchesReference(parts, false);
  }
}

TEST_P(CudaProducts, StackedPartsOrderedRowsAndBias) {
  const RandomWeight first = RandomWeight::Make(WeightFormat::kQ4_1, 24, 768, 2);
  const RandomWeight second = RandomWeight::Make(WeightFormat::kF16, 16, 768, 3);
  const std::int32_t order[] = {7, 0, 0, 23, 5, 6, 8, 9};
  WeightSource ordered = first.source();
  ordered.row_order = order;
  const WeightSource parts[] = {ordered, second.source()};
  ExpectMatchesReference(parts, true);
}

TEST_P(CudaProducts, ShapesOfModels) {
  for (const auto& [rows, cols] : {std::pair{960, 576}, {576, 1536}, {3072, 576}}) {
    const RandomWeight weight = RandomWeight::Make(WeightFormat::kBF16, rows, cols, 4);
    const WeightSource parts[] = {weight.source()};
    ExpectMatchesReference(parts, false);
  }
}

TEST_P(CudaProducts, LookedUpRowsAreTheFiles) {
  for (const WeightFormat format : kAllWeightFormats) {
    const RandomWeight weight = RandomWeight::Make(format, 30, 256, 5);
    const auto table = backend_->ops().PackEmbedding(weight.source());
    ASSERT_TRUE(table.ok()) << table.status();
    const WeightSource parts[] = {weight.source()};
    const ReferenceWeight wanted = MakeReference(parts, Bf16Rounding::kNone);
    const std::vector<std::int32_t> ids = {29, 0, 7, 7};
    std::vector<float> out(4 * 256);
    ASSERT_TRUE(backend_->ops()
                    .Embed(**table, ids, TensorView::Of(out.data(), DType::kF32, 4, 256), *stream_)
                    .ok());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto at = static_cast<std::size_t>(ids[i / 256]) * 256 + i % 256;
      ASSERT_EQ(out[i], static_cast<float>(wanted.values[at])) << Name(format) << " " << i;
    }
    const std::vector<std::int32_t> outside = {30, 0, 0, 0};
    EXPECT_EQ(
        backend_->ops()
            .Embed(**table, outside, TensorView::Of(out.data(), DType::kF32, 4, 256), *stream_)
            .code(),
        absl::StatusCode::kInvalidArgument);
  }
}

// The kernel's numbers are the CPU's, to the bit: whole, cut, stacked, and looked up.
TEST_P(CudaProducts, GeneratedNumbersAreTheCpus) {
  const std::unique_ptr<Backend> cpu = CreateBackend(DeviceKind::kCpu, 0, {}).value();
  WeightSource source = {.format = WeightFormat::kBF16,
                         .rows = 70,
                         .cols = 1030,
                         .generated = GeneratedNumbers{
                             .seed = 0x0123456789abcdefu, .deviation = 0.03f, .first_row = 12345}};
  const std::vector<std::int32_t> order = {69, 0, 7, 7, 31};
  std::vector<WeightSource> cases = {source};
  source.row_order = order;
  cases.push_back(source);
  for (const std::int64_t first_col : {1, 4, 514}) {
    source.first_col = first_col;
    source.num_cols = 515;
    cases.push_back(source);
  }
  for (const WeightSource& wanted : cases) {
    const auto here = cpu->ops().PackEmbedding(wanted);
    const auto there = backend_->ops().PackEmbedding(wanted);
    ASSERT_TRUE(here.ok()) << here.status();
    ASSERT_TRUE(there.ok()) << there.status();
    const std::int64_t rows = (*here)->rows(), cols = (*here)->cols();
    ASSERT_EQ((*there)->rows(), rows);
    ASSERT_EQ((*there)->cols(), cols);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(rows));
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i);
    std::vector<float> numbers(static_cast<std::size_t>(rows * cols)), copied(numbers.size(), NAN);
    const auto view = [&](std::vector<float>& out) {
      return TensorView::Of(out.data(), DType::kF32, rows, cols);
    };
    const std::unique_ptr<Stream> host_stream = cpu->device().CreateStream().value();
    ASSERT_TRUE(cpu->ops().Embed(**here, ids, view(numbers), *host_stream).ok());
    ASSERT_TRUE(backend_->ops().Embed(**there, ids, view(copied), *stream_).ok());
    ASSERT_EQ(copied, numbers) << "from column " << wanted.first_col;
  }
}

// A product with a unit vector is a column of the weight, whatever the order of sums.
TEST_P(CudaProducts, GeneratedNumbersAreMultiplied) {
  constexpr std::int64_t kRows = 72, kCols = 1024;
  const std::unique_ptr<Backend> cpu = CreateBackend(DeviceKind::kCpu, 0, {}).value();
  const std::unique_ptr<Stream> host_stream = cpu->device().CreateStream().value();
  const WeightSource source = {
      .format = WeightFormat::kBF16,
      .rows = kRows,
      .cols = kCols,
      .generated = GeneratedNumbers{.seed = 5, .deviation = 0.03f, .first_row = 0}};
  std::vector<float> numbers(kRows * kCols);
  std::vector<std::int32_t> ids(kRows);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i);
  ASSERT_TRUE(cpu->ops()
                  .Embed(*cpu->ops().PackEmbedding(source).value(), ids,
                         TensorView::Of(numbers.data(), DType::kF32, kRows, kCols), *host_stream)
                  .ok());
  const WeightSource parts[] = {source, source};
  const auto weight = backend_->ops().PackWeight(parts);
  ASSERT_TRUE(weight.ok()) << weight.status();
  ASSERT_TRUE(backend_->ops().Reserve(3).ok());
  const std::size_t columns[] = {0, 513, 1023};
  std::vector<float> x(3 * kCols);
  for (std::size_t i = 0; i < 3; ++i) x[i * kCols + columns[i]] = 1;
  const std::vector<float> out = Multiply(**weight, x, 3, {}, DType::kF32);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t row = 0; row < 2 * kRows; ++row) {
      ASSERT_EQ(out[i * 2 * kRows + row], numbers[row % kRows * kCols + columns[i]])
          << row << ", column " << columns[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, CudaProducts, testing::ValuesIn(TestedBackends()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace thresher
