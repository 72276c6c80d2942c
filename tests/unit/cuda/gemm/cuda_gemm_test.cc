// Products on a GPU below the plugin: our kernel in every configuration, and the search. Skips
// without a driver.
#include "kernels/cuda/cuda_gemm.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/gemm_reference.h"
#include "tests/support/random_weight.h"
#include "tests/support/reference/numbers.h"
#include "tests/support/temp_folder.h"

namespace thresher {
namespace {

constexpr int kMaxRows = 64;

class CudaGemmTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr) {
      GTEST_SKIP() << "NO CUDA DRIVER: not run";
    }
    auto device = OpenCudaDevice(0);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    stream_ = device_->CreateStream().value();
  }

  DeviceBuffer Send(const void* from, std::size_t bytes) {
    DeviceBuffer buffer = device_->Allocate(bytes).value();
    EXPECT_TRUE(device_->CopyToDevice(from, buffer.get(), bytes).ok());
    return buffer;
  }
  DeviceBuffer SendBf16(const std::vector<float>& values) {
    std::vector<std::uint16_t> narrow(values.size());
    std::transform(values.begin(), values.end(), narrow.begin(), FloatToBf16);
    return Send(narrow.data(), narrow.size() * 2);
  }
  std::unique_ptr<CudaWeight> Weight(std::int64_t rows, std::int64_t cols) {
    const RandomWeight weight = RandomWeight::Make(WeightFormat::kBF16, rows, cols, 3);
    const WeightSource parts[] = {weight.source()};
    return PackCudaWeight(parts, DType::kBF16, *device_).value();
  }

  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<Stream> stream_;
};

// A product of kMaxRows rows of input with its reference; the first n rows are a product of n.
class ProductCase final {
 public:
  ProductCase(std::int64_t rows, std::int64_t cols, bool with_bias)
      : rows_(rows),
        cols_(cols),
        weight_(RandomWeight::Make(WeightFormat::kBF16, rows, cols, 1)),
        x_(RandomBf16Values(static_cast<std::size_t>(kMaxRows * cols), 7)),
        bias_(NormalValues(with_bias ? rows : 0, 1.0, 8)) {
    const WeightSource parts[] = {weight_.source()};
    wanted_ = MultiplyReference(MakeReference(parts, Bf16Rounding::kNone), x_, kMaxRows, bias_);
  }
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  const RandomWeight& weight() const { return weight_; }
  const std::vector<float>& x() const { return x_; }
  const std::vector<float>& bias() const { return bias_; }

  // Matrix units drop what lies below the last place of a sum instead of rounding it: twice the
  // error of a rounding.
  void Expect(const void* out, DType dtype, std::int64_t n) const {
    for (std::int64_t i = 0; i < n * rows_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double stored =
          dtype == DType::kF32 ? 0 : 1.01 * RoundingOf(dtype) * std::fabs(wanted_.values[at]);
      const double bound = 2 * RelativeBound(cols_) * wanted_.magnitudes[at] + stored;
      const double got = ReadElement(out, dtype, i);
      ASSERT_TRUE(std::fabs(got - wanted_.values[at]) <= bound)
          << n << " rows, element " << i << ": " << got << ", not " << wanted_.values[at];
    }
  }

 private:
  std::int64_t rows_, cols_;
  RandomWeight weight_;
  std::vector<float> x_, bias_;
  ReferenceProduct wanted_;
};

TEST_F(CudaGemmTest, OurKernelMatchesTheReferenceInEveryConfiguration) {
  const SkinnyGemm gemm = SkinnyGemm::Create(*device_).value();
  for (const auto& [rows, cols] : {std::pair{1, 8},
                                   {63, 72},
                                   {64, 128},
                                   {65, 1000},
                                   {130, 264},
                                   {333, 136},
                                   {192, 1536},
                                   {96, 2304}}) {
    const ProductCase product(rows, cols, rows % 2 != 0);
    const DeviceBuffer weight = Send(product.weight().bytes.data(), product.weight().bytes.size());
    const DeviceBuffer x = SendBf16(product.x());
    const DeviceBuffer bias = Send(product.bias().data(), product.bias().size() * 4);
    const std::size_t bytes = static_cast<std::size_t>(kMaxRows * rows) * 4;
    const std::vector<std::uint32_t> poison(bytes / 4, 0xffffffffu);
    std::vector<std::uint32_t> out(poison.size());
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const GemmShape shape = {DType::kBF16, rows, cols, dtype};
      for (int n = 1; n <= kMaxRows; ++n) {
        for (const int groups : {1, 2, 4}) {
          for (const int splits : {1, 2, 4, 8}) {
            const SkinnyConfig config = {groups, splits, n % 2 + 1};
            // Every number of rows in one configuration, every configuration at the ends of
            // batches.
            if ((groups != 1 || splits != 1) && n % 8 > 1) continue;
            const int stages =
                SkinnyStages(config, SkinnyBatch(n), device_->shared_bytes_of_multiprocessor());
            if (stages < kSkinnyMinStages) continue;
            const DeviceBuffer there = Send(poison.data(), bytes);
            const absl::Status status =
                gemm.Run(shape,
                         {x.get(), weight.get(),
                          product.bias().empty() ? nullptr : static_cast<const float*>(bias.get()),
                          there.get(), n},
                         config, HandleOf(*stream_));
            ASSERT_TRUE(status.ok()) << status;
            ASSERT_TRUE(stream_->Synchronize().ok());
            ASSERT_TRUE(device_->CopyToHost(there.get(), out.data(), bytes).ok());
            product.Expect(out.data(), dtype, n);
            ASSERT_FALSE(HasFatalFailure())
                << rows << "x" << cols << ", groups " << groups << ", splits " << splits;
            // Nothing past the output is touched.
            const auto written = static_cast<std::size_t>(n * rows * SizeOf(dtype));
            ASSERT_EQ(std::memcmp(reinterpret_cast<std::byte*>(out.data()) + written, poison.data(),
                                  bytes - written),
                      0);
          }
        }
      }
    }
  }
}

TEST_F(CudaGemmTest, AConfigurationWithoutRoomIsRefused) {
  const SkinnyGemm gemm = SkinnyGemm::Create(*device_).value();
  const DeviceBuffer memory = device_->Allocate(1 << 20).value();
  const GemmCall call = {memory.get(), memory.get(), nullptr, memory.get(), 64};
  EXPECT_EQ(
      gemm.Run({DType::kBF16, 64, 64, DType::kF32}, call, {4, 8, 2}, HandleOf(*stream_)).code(),
      absl::StatusCode::kInvalidArgument);
}

TEST_F(CudaGemmTest, OurKernelGivesTheSameBitsAgain) {
  const SkinnyGemm gemm = SkinnyGemm::Create(*device_).value();
  const std::int64_t rows = 512, cols = 8192, n = 40;
  const DeviceBuffer weight = SendBf16(NormalValues(rows * cols, 1.0, 1));
  const DeviceBuffer x = SendBf16(NormalValues(n * cols, 1.0, 2));
  const std::size_t bytes = static_cast<std::size_t>(n * rows) * 4;
  const DeviceBuffer there = device_->Allocate(bytes).value();
  std::vector<float> first(n * rows), again(n * rows);
  for (const SkinnyConfig& config : {SkinnyConfig{1, 8, 1}, SkinnyConfig{1, 1, 1}}) {
    for (int round = 0; round < 10; ++round) {
      for (int i = 0; i < 4; ++i) {
        ASSERT_TRUE(gemm.Run({DType::kBF16, rows, cols, DType::kF32},
                             {x.get(), weight.get(), nullptr, there.get(), n}, config,
                             HandleOf(*stream_))
                        .ok());
      }
      ASSERT_TRUE(stream_->Synchronize().ok());
      std::vector<float>& to = round == 0 ? first : again;
      ASSERT_TRUE(device_->CopyToHost(there.get(), to.data(), bytes).ok());
      if (round > 0) {
        EXPECT_EQ(first, again);
      }
    }
  }
}

TEST_F(CudaGemmTest, SearchesOnceAndKeepsTheChoices) {
  const testing::TempFolder folder;
  const std::string path = folder.path() + "/products.txt";
  std::string report;
  const auto reserve = [&] {
    CudaGemmOptions options;
    options.choices_path = path;
    options.report = [&](std::string_view line) { report = line; };
    auto gemm = CudaGemm::Create(*device_, options).value();
    gemm->Announce(*Weight(1024, 512));
    EXPECT_TRUE(gemm->Reserve(16).ok());
  };
  const auto has = [&](const char* text) { return report.find(text) != std::string::npos; };
  reserve();
  EXPECT_TRUE(has("products_loaded=0 products_searched=24 products_guessed=0")) << report;
  reserve();
  EXPECT_TRUE(has("products_loaded=24 products_searched=0 products_guessed=0")) << report;
  EXPECT_TRUE(has("file_trouble=\"\"")) << report;
  // A damaged file is told of and replaced.
  folder.Write("products.txt", "nonsense\n");
  reserve();
  EXPECT_TRUE(has("products_searched=24")) << report;
  EXPECT_FALSE(has("file_trouble=\"\"")) << report;
  reserve();
  EXPECT_TRUE(has("products_loaded=24")) << report;
}

TEST_F(CudaGemmTest, BatchInvariantBitsDoNotDependOnTheOtherRows) {
  auto gemm = CudaGemm::Create(*device_, {.batch_invariant = true}).value();
  const std::int64_t rows = 768, cols = 2048, most = 300;
  const std::unique_ptr<CudaWeight> weight = Weight(rows, cols);
  gemm->Announce(*weight);
  ASSERT_TRUE(gemm->Reserve(most).ok());
  const DeviceBuffer x = SendBf16(NormalValues(most * cols, 1.0, 2));
  const DeviceBuffer there = device_->Allocate(static_cast<std::size_t>(most * rows) * 4).value();
  std::vector<float> all(most * rows), some(most * rows);
  for (const std::int64_t n : {most, std::int64_t{1}, std::int64_t{64}, std::int64_t{129}}) {
    ASSERT_TRUE(gemm->MatMul(TensorView::Of(x.get(), DType::kBF16, n, cols), *weight, {},
                             TensorView::Of(there.get(), DType::kF32, n, rows), HandleOf(*stream_))
                    .ok());
    ASSERT_TRUE(stream_->Synchronize().ok());
    std::vector<float>& to = n == most ? all : some;
    ASSERT_TRUE(
        device_->CopyToHost(there.get(), to.data(), static_cast<std::size_t>(n * rows) * 4).ok());
    if (n != most) {
      EXPECT_TRUE(std::equal(some.begin(), some.begin() + n * rows, all.begin())) << n;
    }
  }
}

TEST_F(CudaGemmTest, MisalignedTensorsAreRefused) {
  auto gemm = CudaGemm::Create(*device_, {}).value();
  const std::unique_ptr<CudaWeight> weight = Weight(64, 64);
  const DeviceBuffer memory = device_->Allocate(64 * 64 * 8).value();
  const absl::Status status =
      gemm->MatMul(TensorView::Of(memory.bytes_at(2), DType::kBF16, 1, 64), *weight, {},
                   TensorView::Of(memory.bytes_at(4096), DType::kF32, 1, 64), HandleOf(*stream_));
  EXPECT_EQ(status.message(), "mat_mul: x is not aligned to 16 bytes");
}

}  // namespace
}  // namespace thresher
