// Bad arguments of packing, products and look-ups are refused by name; look-ups are exact.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu/dequantize.h"
#include "kernels/cpu/gemm.h"
#include "tests/support/gemm_product.h"
#include "tests/support/random_weight.h"

namespace thresher {
namespace {

class PackTest : public testing::Test {
 protected:
  // The message of the refusal, or "" if the parts were packed.
  std::string Refusal(std::span<const WeightSource> parts) {
    const absl::StatusOr<std::unique_ptr<CpuWeight>> weight =
        PackCpuWeight(parts, {}, arena_, team_);
    if (weight.ok()) return "";
    EXPECT_EQ(weight.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(weight.status().message());
  }
  std::string Refusal(const WeightSource& source) {
    const WeightSource parts[] = {source};
    return Refusal(parts);
  }

  const RandomWeight stored_ = RandomWeight::Make(WeightFormat::kQ4_0, 4, 64, 1);
  WeightSource source_ = stored_.source();
  WeightArena arena_;
  ThreadTeam team_{1};
};

TEST_F(PackTest, TakesAGoodSource) { EXPECT_EQ(Refusal(source_), ""); }

TEST_F(PackTest, RefusesNoParts) {
  EXPECT_EQ(Refusal(std::span<const WeightSource>()), "weight has no parts");
}

TEST_F(PackTest, RefusesNoBytes) {
  source_.bytes = nullptr;
  EXPECT_EQ(Refusal(source_), "weight part 0: no bytes");
}

TEST_F(PackTest, RefusesAnUnknownFormat) {
  source_.format = static_cast<WeightFormat>(200);
  EXPECT_EQ(Refusal(source_), "weight part 0: unknown weight format 200");
}

TEST_F(PackTest, RefusesShapesThatAreNotPositive) {
  source_.rows = 0;
  EXPECT_EQ(Refusal(source_), "weight part 0: shape [0, 64] is not positive");
  source_.rows = 4;
  source_.cols = -64;
  EXPECT_EQ(Refusal(source_), "weight part 0: shape [4, -64] is not positive");
}

TEST_F(PackTest, RefusesShapesThatOverflow) {
  source_.rows = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(Refusal(source_).find("exceeds 1073741823"), std::string::npos);
}

TEST_F(PackTest, RefusesPartsOfBlocks) {
  source_.cols = 48;
  EXPECT_EQ(Refusal(source_), "weight part 0: 48 columns are not whole blocks of 32");
}

TEST_F(PackTest, RefusesRowsOutOfRange) {
  for (const std::int32_t row : {-1, 4, std::numeric_limits<std::int32_t>::max()}) {
    const std::int32_t order[] = {0, row};
    source_.row_order = order;
    EXPECT_EQ(Refusal(source_), "weight part 0: row " + std::to_string(row) + " is not within 4");
  }
}

TEST_F(PackTest, RefusesColumnsOutOfRange) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const std::pair<std::int64_t, std::int64_t> ranges[] = {{-1, 8},   {64, 1},   {33, 32}, {0, 65},
                                                          {kMax, 1}, {1, kMax}, {0, -1}};
  for (const auto& [first, count] : ranges) {
    source_.first_col = first;
    source_.num_cols = count;
    EXPECT_NE(Refusal(source_).find("are not within 64"), std::string::npos)
        << count << " columns from " << first;
  }
}

TEST_F(PackTest, RefusesAFirstColumnWithoutACount) {
  source_.first_col = 32;
  EXPECT_EQ(Refusal(source_), "weight part 0: first_col 32 needs num_cols");
}

TEST_F(PackTest, RefusesPartsOfDifferentWidth) {
  const RandomWeight other = RandomWeight::Make(WeightFormat::kQ4_0, 4, 96, 1);
  const WeightSource parts[] = {source_, other.source()};
  EXPECT_EQ(Refusal(parts), "weight part 1: 96 columns, but part 0 has 64");
}

TEST_F(PackTest, CountsTheBytesThatItHoldsAndReads) {
  // 20 rows are two tiles; a tile of Q4_0 with 64 columns has two groups of 16 f16 scales in one
  // line and 64 · 16 nibbles.
  const RandomWeight stored = RandomWeight::Make(WeightFormat::kQ4_0, 20, 64, 1);
  const WeightSource parts[] = {stored.source()};
  const CpuGemmOptions options{.many_rows = ManyRowsGemm::kBuiltIn};
  const auto weight = PackCpuWeight(parts, options, arena_, team_);
  ASSERT_TRUE(weight.ok()) << weight.status();
  EXPECT_EQ((*weight)->num_bytes(), 2 * (64 + 512));
  EXPECT_EQ((*weight)->BytesRead(1), (*weight)->num_bytes());
  EXPECT_EQ((*weight)->BytesRead(1000), (*weight)->num_bytes());
}

class MatMulTest : public PackTest {
 protected:
  MatMulTest() {
    const WeightSource parts[] = {source_};
    weight_ = *PackCpuWeight(parts, {}, arena_, team_);
    EXPECT_TRUE(scratch_.Reserve(8, 64).ok());
  }
  absl::Status Multiply(TensorView x, TensorView bias, TensorView out) {
    return CpuMatMul(x, *weight_, bias, out, scratch_, team_);
  }
  TensorView Floats(std::int64_t rows, std::int64_t cols) {
    return TensorView::Of(memory_.data(), DType::kF32, rows, cols);
  }

  std::unique_ptr<CpuWeight> weight_;
  GemmScratch scratch_{CpuGemmOptions{}, 1};
  std::vector<float> memory_ = std::vector<float>(4096);
};

TEST_F(MatMulTest, TakesGoodTensors) {
  EXPECT_TRUE(Multiply(Floats(2, 64), {}, Floats(2, 4)).ok());
  EXPECT_TRUE(Multiply(Floats(0, 64), {}, Floats(0, 4)).ok());
}

TEST_F(MatMulTest, RefusesTensorsOfOtherShapes) {
  const TensorView bias = TensorView::Of(memory_.data(), DType::kF32, 5);
  EXPECT_EQ(Multiply(Floats(2, 63), {}, Floats(2, 4)).message(),
            "matmul x is f32[2, 63], not f32[2, 64]");
  EXPECT_EQ(Multiply(Floats(2, 64), {}, Floats(3, 4)).message(),
            "matmul out is f32[3, 4], not f32[2, 4]");
  EXPECT_EQ(Multiply(Floats(2, 64), bias, Floats(2, 4)).message(),
            "matmul bias is f32[5], not f32[4]");
  EXPECT_EQ(Multiply({}, {}, Floats(2, 4)).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(MatMulTest, RefusesTensorsOfOtherTypes) {
  TensorView x = Floats(2, 64);
  x.dtype = DType::kBF16;
  EXPECT_EQ(Multiply(x, {}, Floats(2, 4)).message(), "matmul x is bf16[2, 64], not f32[2, 64]");
}

TEST_F(MatMulTest, RefusesMoreRowsThanReserved) {
  const absl::Status status = Multiply(Floats(9, 64), {}, Floats(9, 4));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("reserved for 8 rows"), std::string::npos) << status;
}

TEST_F(MatMulTest, RefusesATable) {
  weight_ = *PackCpuEmbedding(source_);
  EXPECT_EQ(Multiply(Floats(2, 64), {}, Floats(2, 4)).message(),
            "matmul weight is a table of rows to look up");
}

class EmbedTest : public testing::TestWithParam<WeightFormat> {};
INSTANTIATE_TEST_SUITE_P(Gemm, EmbedTest, testing::ValuesIn(kAllWeightFormats),
                         [](const auto& test) { return std::string(Name(test.param)); });

TEST_P(EmbedTest, LooksRowsUpExactly) {
  const std::int64_t cols = 256;
  const RandomWeight stored = RandomWeight::Make(GetParam(), 50, cols, 2);
  const auto table = PackCpuEmbedding(stored.source());
  ASSERT_TRUE(table.ok()) << table.status();
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < 100; ++i) ids.push_back(i * 7 % 50);
  std::vector<float> out(ids.size() * 256);
  ThreadTeam team(2);
  const absl::Status status =
      EmbedRows(**table, ids, TensorView::Of(out.data(), DType::kF32, 100, cols), team);
  ASSERT_TRUE(status.ok()) << status;
  const std::int64_t row_bytes = cols / BlockElements(GetParam()) * BlockBytes(GetParam());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::vector<float> wanted(256);
    DequantizeRow(GetParam(), stored.bytes.data() + ids[i] * row_bytes, 0, cols, wanted.data());
    const std::vector<float> row(out.begin() + static_cast<std::ptrdiff_t>(i * 256),
                                 out.begin() + static_cast<std::ptrdiff_t>(i * 256 + 256));
    ASSERT_EQ(row, wanted) << "id " << ids[i];
  }
  EXPECT_EQ((*table)->BytesRead(3), 3 * row_bytes);
  EXPECT_EQ((*table)->num_bytes(), 0);
}

TEST_F(MatMulTest, LookUpsAreRefusedOutOfRange) {
  const auto table = PackCpuEmbedding(source_);
  ASSERT_TRUE(table.ok());
  for (const std::int32_t id : {-1, 4}) {
    const std::int32_t ids[] = {0, id};
    EXPECT_EQ(EmbedRows(**table, ids, Floats(2, 64), team_).message(),
              "embedding id " + std::to_string(id) + " is not within 4 rows");
  }
  const std::int32_t ids[] = {0, 1};
  EXPECT_EQ(EmbedRows(**table, ids, Floats(3, 64), team_).message(),
            "embedding out is f32[3, 64], not f32[2, 64]");
  EXPECT_EQ(EmbedRows(*weight_, ids, Floats(2, 64), team_).message(),
            "embedding table is a weight packed for products");
}

TEST(WeightArenaTest, PiecesAreAlignedApartAndOutliveTheArena) {
  std::vector<std::shared_ptr<std::byte>> pieces;
  {
    WeightArena arena;
    for (const std::int64_t bytes : {0, 1, 64, 65, 1000, 80 << 20, 5}) {
      absl::StatusOr<std::shared_ptr<std::byte>> piece = arena.Allocate(bytes);
      ASSERT_TRUE(piece.ok()) << piece.status();
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(piece->get()) % 64, 0u);
      for (const auto& other : pieces) EXPECT_NE(other, *piece);
      if (bytes > 0) {
        piece->get()[0] = std::byte{1};
        piece->get()[bytes - 1] = std::byte{1};
      }
      pieces.push_back(*std::move(piece));
    }
  }
  EXPECT_EQ(pieces[1].get()[0], std::byte{1});
  EXPECT_EQ(pieces[5].get()[(80 << 20) - 1], std::byte{1});
}

}  // namespace
}  // namespace thresher
