// Which part of a weight a rank takes, and vectors out of files.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "engine/model/vector_store.h"
#include "engine/model/weight_shard.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "tests/support/reference/dequantize.h"

namespace thresher {
namespace {

ModelConfig Config() {
  ModelConfig config;
  config.num_heads = 12;
  config.num_kv_heads = 6;
  config.intermediate_size = 18;
  config.vocab_size = 10;
  return config;
}

TEST(ModelShard, SharesEvenlyInRankOrder) {
  for (int rank = 0; rank < 3; ++rank) {
    auto shard = ShardOf(Config(), rank, 3);
    ASSERT_TRUE(shard.ok()) << shard.status();
    EXPECT_EQ(shard->heads.first, 4 * rank);
    EXPECT_EQ(shard->heads.count, 4);
    EXPECT_EQ(shard->kv_heads.first, 2 * rank);
    EXPECT_EQ(shard->intermediate.count, 6);
    EXPECT_EQ(shard->vocab.first, 4 * rank);
    EXPECT_EQ(shard->vocab.count, 4) << "of 10, so the last reaches past the end";
  }
}

TEST(ModelShard, NamesWhatDoesNotDivide) {
  struct Case {
    int size;
    const char* message;
  };
  for (const Case& bad : {Case{5, "num_heads, 12"}, Case{4, "num_kv_heads, 6"}}) {
    const absl::Status status = ShardOf(Config(), 0, bad.size).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(status.message()).find(bad.message), std::string::npos) << status;
  }
  ModelConfig config = Config();
  config.intermediate_size = 20;
  EXPECT_NE(std::string(ShardOf(config, 0, 3).status().message()).find("intermediate_size, 20"),
            std::string::npos);
}

TEST(ModelShard, HeadRowsRepeatTheLastPastTheVocabulary) {
  EXPECT_EQ(HeadRows({.first = 4, .count = 4}, 10), (std::vector<std::int32_t>{4, 5, 6, 7}));
  EXPECT_EQ(HeadRows({.first = 8, .count = 4}, 10), (std::vector<std::int32_t>{8, 9, 9, 9}));
  EXPECT_EQ(HeadRows({.first = 12, .count = 4}, 10), (std::vector<std::int32_t>{9, 9, 9, 9}));
}

// A matrix [4, 3] whose element (r, c) is 10 r + c.
struct Matrix {
  Matrix() {
    for (int r = 0; r < 4; ++r) {
      for (int c = 0; c < 3; ++c) values.push_back(static_cast<float>(10 * r + c));
    }
  }
  WeightSource source() const {
    return {.bytes = reinterpret_cast<const std::byte*>(values.data()),
            .format = WeightFormat::kF32,
            .rows = 4,
            .cols = 3};
  }
  std::vector<float> values;
};

TEST(WeightParts, RowsAndColumnsOfPlainAndPermutedWeights) {
  const Matrix matrix;
  EXPECT_EQ(testing::Dequantize(RowsOf(matrix.source(), {.first = 1, .count = 2})),
            (std::vector<double>{10, 11, 12, 20, 21, 22}));
  EXPECT_EQ(testing::Dequantize(ColumnsOf(matrix.source(), {.first = 1, .count = 2})),
            (std::vector<double>{1, 2, 11, 12, 21, 22, 31, 32}));
  const std::vector<std::int32_t> order = {3, 1, 2, 0};
  WeightSource permuted = matrix.source();
  permuted.row_order = order;
  EXPECT_EQ(testing::Dequantize(RowsOf(permuted, {.first = 0, .count = 2})),
            (std::vector<double>{30, 31, 32, 10, 11, 12}));
}

class VectorStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { backend_ = *CreateBackend(DeviceKind::kCpu, 0, {.num_threads = 1}); }
  static std::vector<float> Read(const TensorView& view) {
    return {view.as<float>(), view.as<float>() + view.num_elements()};
  }
  std::unique_ptr<Backend> backend_;
  VectorStore store_;
};

// A bias whose matrix has permuted rows is permuted and cut with them.
TEST_F(VectorStoreTest, JoinsPartsInTheirRowOrder) {
  const std::vector<float> first = {0, 1, 2, 3}, second = {10, 11};
  const std::vector<std::int32_t> order = {3, 1, 2, 0};
  const auto column = [](const std::vector<float>& values) {
    return WeightSource{.bytes = reinterpret_cast<const std::byte*>(values.data()),
                        .format = WeightFormat::kF32,
                        .rows = static_cast<std::int64_t>(values.size()),
                        .cols = 1};
  };
  WeightSource permuted = column(first);
  permuted.row_order = order;
  const std::vector<WeightSource> parts = {RowsOf(permuted, {.first = 1, .count = 3}),
                                           column(second)};
  const int joined = store_.Add(parts);
  const int alone = store_.Add({parts.data() + 1, 1});
  ASSERT_TRUE(store_.Upload(backend_->device()).ok());
  EXPECT_EQ(Read(store_.View(joined)), (std::vector<float>{1, 2, 0, 10, 11}));
  EXPECT_EQ(Read(store_.View(alone)), (std::vector<float>{10, 11}));
  EXPECT_EQ(store_.View(-1).data, nullptr);
}

TEST_F(VectorStoreTest, ConvertsEveryHalfAndBfloat16) {
  std::vector<std::uint16_t> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  WeightSource source{.bytes = reinterpret_cast<const std::byte*>(bits.data()),
                      .format = WeightFormat::kF16,
                      .rows = 1,
                      .cols = 65536};
  const int half = store_.Add({&source, 1});
  WeightSource wide = source;
  wide.format = WeightFormat::kBF16;
  const int bfloat = store_.Add({&wide, 1});
  ASSERT_TRUE(store_.Upload(backend_->device()).ok());
  for (const auto& [index, format] : {std::pair(half, source), std::pair(bfloat, wide)}) {
    const std::vector<double> expected = testing::Dequantize(format);
    const std::vector<float> got = Read(store_.View(index));
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (std::isnan(expected[i])) {
        EXPECT_TRUE(std::isnan(got[i])) << i;
      } else {
        EXPECT_EQ(got[i], expected[i]) << i;
      }
    }
  }
}

}  // namespace
}  // namespace thresher
