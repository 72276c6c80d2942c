// The decoder on the CPU backend against the logits of transformers, and against itself: chunked,
// and on several ranks.
#include "engine/model/decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "engine/attention/solo_attention.h"
#include "engine/model/model_files.h"
#include "gtest/gtest.h"
#include "tests/support/logits_bounds.h"
#include "tests/support/logits_golden.h"
#include "tests/support/model_run.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_environment.h"

namespace thresher {
namespace {

using testing::Bfloat16Bound;
using testing::FloatBound;
using testing::GoldenPath;
using testing::Largest;
using testing::LargestDifference;
using testing::LogitsGolden;
using testing::RotationBound;
using testing::RunModel;

std::unique_ptr<ModelFiles> OpenTiny(const std::string& name) {
  auto files = ModelFiles::Open(GoldenPath("models/" + name));
  EXPECT_TRUE(files.ok()) << files.status();
  return files.ok() ? *std::move(files) : nullptr;
}

class TinyDecoder : public ::testing::TestWithParam<std::string> {};

TEST_P(TinyDecoder, GivesTheLogitsOfTransformers) {
  const auto files = OpenTiny(GetParam());
  const LogitsGolden golden = testing::ReadLogitsGolden(testing::StemOf(GetParam()));
  auto logits = RunModel(*files, golden.tokens, {});
  ASSERT_TRUE(logits.ok()) << logits.status();
  const double largest = Largest(golden.logits);
  EXPECT_LT(LargestDifference((*logits)[0], golden.logits),
            FloatBound(files->config(), largest) + RotationBound(golden.tokens.size(), largest));
}

TEST_P(TinyDecoder, StaysNearInTheNarrowTypesOfServing) {
  const auto files = OpenTiny(GetParam());
  const LogitsGolden golden = testing::ReadLogitsGolden(testing::StemOf(GetParam()));
  auto logits =
      RunModel(*files, golden.tokens, {.full_precision = false, .kv_dtype = DType::kBF16});
  ASSERT_TRUE(logits.ok()) << logits.status();
  EXPECT_LT(LargestDifference((*logits)[0], golden.logits),
            Bfloat16Bound(files->config(), Largest(golden.logits)));
}

TEST_P(TinyDecoder, ChunksGiveTheLogitsOfOneStep) {
  const auto files = OpenTiny(GetParam());
  const LogitsGolden golden = testing::ReadLogitsGolden(testing::StemOf(GetParam()));
  auto whole = RunModel(*files, golden.tokens, {});
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (const int chunk : {1, 7, 32}) {
    auto chunked = RunModel(*files, golden.tokens, {.chunk = chunk});
    ASSERT_TRUE(chunked.ok()) << chunked.status();
    EXPECT_LT(LargestDifference((*chunked)[0], (*whole)[0]),
              2 * FloatBound(files->config(), Largest((*whole)[0])))
        << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TinyDecoder, ::testing::ValuesIn(testing::TinyModels()),
                         [](const auto& test) { return testing::StemOf(test.param); });

// The format asks writers to align the numbers and readers not to count on it.
TEST(Decoder, ReadsWeightsAtOddAddresses) {
  const testing::TempFolder folder;
  std::filesystem::copy(GoldenPath("models/llama31"), folder.path(),
                        std::filesystem::copy_options::recursive);
  std::ifstream file(folder.path() + "/model.safetensors", std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  std::string text = bytes.str();
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, text.data(), sizeof header_bytes);
  text.insert(sizeof header_bytes + header_bytes, " ");
  ++header_bytes;
  std::memcpy(text.data(), &header_bytes, sizeof header_bytes);
  folder.Write("model.safetensors", text);
  auto moved = ModelFiles::Open(folder.path());
  ASSERT_TRUE(moved.ok()) << moved.status();
  const std::vector<TokenId> tokens = {5, 17, 90, 3};
  auto expected = RunModel(*OpenTiny("llama31"), tokens, {});
  ASSERT_TRUE(expected.ok()) << expected.status();
  auto logits = RunModel(**moved, tokens, {});
  ASSERT_TRUE(logits.ok()) << logits.status();
  EXPECT_EQ(*logits, *expected);
}

struct RankCase {
  const char* model;
  int num_ranks;
};

class DecoderRanks : public ::testing::TestWithParam<RankCase> {};

TEST_P(DecoderRanks, GiveTheLogitsOfOne) {
  const auto files = OpenTiny(GetParam().model);
  const LogitsGolden golden = testing::ReadLogitsGolden(testing::StemOf(GetParam().model));
  auto solo = RunModel(*files, golden.tokens, {});
  ASSERT_TRUE(solo.ok()) << solo.status();
  auto ranks = RunModel(*files, golden.tokens, {.num_ranks = GetParam().num_ranks, .chunk = 40});
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  EXPECT_LT(LargestDifference((*ranks)[0], (*solo)[0]),
            2 * FloatBound(files->config(), Largest((*solo)[0])));
  for (const std::vector<float>& other : *ranks) EXPECT_EQ(other, (*ranks)[0]);
}

// llama31 has a vocabulary of 99, which neither 2 nor 4 divides; llama_yarn_biases has biases on
// the matrices whose outputs are summed over the ranks; llama_mixed cuts quantised blocks in two.
INSTANTIATE_TEST_SUITE_P(
    All, DecoderRanks,
    ::testing::Values(RankCase{"llama31", 2}, RankCase{"llama31", 4}, RankCase{"qwen2_sharded", 2},
                      RankCase{"qwen2_sharded", 4}, RankCase{"llama_tied_f16", 3},
                      RankCase{"llama_yarn_biases", 4}, RankCase{"llama_mixed.gguf", 2},
                      RankCase{"qwen3_plain.gguf", 2}),
    [](const auto& test) {
      return testing::StemOf(test.param.model) + "_" + std::to_string(test.param.num_ranks);
    });

TEST(DecoderRanks, RefusesASizeThatDoesNotDivide) {
  const auto files = OpenTiny("llama_tied_f16");  // 9 heads, 3 KV heads
  const std::vector<TokenId> tokens = {1, 2, 3};
  const absl::Status status = RunModel(*files, tokens, {.num_ranks = 2}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("num_heads, 9"), std::string::npos) << status;
}

// A model on one rank, and what a step of it needs.
class DecoderSteps : public ::testing::Test {
 protected:
  void SetUp() override {
    files_ = OpenTiny("llama31");
    backend_ = *CreateBackend(
        DeviceKind::kCpu, 0,
        {.num_threads = 1, .max_isa = testing::TestMaxIsa(), .full_precision = true});
    groups_ = CreateInProcessGroup(1);
    stream_ = *backend_->device().CreateStream();
  }

  absl::StatusOr<std::unique_ptr<CausalLm>> Load(const CausalLmOptions& options,
                                                 const LoadProgress& progress = nullptr) {
    return LoadCausalLm(*files_, *backend_, *groups_[0], options, progress);
  }

  std::unique_ptr<ModelFiles> files_;
  std::unique_ptr<Backend> backend_;
  std::vector<std::unique_ptr<TensorParallelGroup>> groups_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(DecoderSteps, RefuseWhatIsOutOfRangeByName) {
  auto model = Load({.max_tokens = 4, .max_logit_rows = 2, .max_position = 8});
  ASSERT_TRUE(model.ok()) << model.status();
  auto attention = SoloAttention::Create(**model, *backend_, DType::kF32, 8);
  ASSERT_TRUE(attention.ok()) << attention.status();
  struct Bad {
    std::vector<TokenId> ids;
    std::vector<std::int32_t> positions;
    std::vector<std::int64_t> slots;
    const char* message;
  };
  for (const Bad& bad :
       std::vector<Bad>{{{}, {}, {}, "a step of 0 rows"},
                        {{1, 1, 1, 1, 1}, {0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}, "a step of 5 rows"},
                        {{1, 1}, {0}, {0, 1}, "1 positions"},
                        {{1, 1}, {0, 1}, {0}, "1 slots"},
                        {{99}, {0}, {0}, "token id 99"},
                        {{-1}, {0}, {0}, "id -1"},  // nothing was drawn
                        {{1}, {8}, {0}, "position 8"},
                        {{1}, {-1}, {0}, "position -1"}}) {
    const absl::Status status = (*model)->Forward(
        {.token_ids = bad.ids, .positions = bad.positions, .slot_mapping = bad.slots}, **attention,
        *stream_);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.message;
    EXPECT_NE(std::string(status.message()).find(bad.message), std::string::npos) << status;
  }
}

TEST_F(DecoderSteps, LogitsAreOfTheAskedRowsInTheirOrder) {
  auto model = Load({.max_tokens = 4, .max_logit_rows = 3, .max_position = 8});
  ASSERT_TRUE(model.ok()) << model.status();
  auto attention = SoloAttention::Create(**model, *backend_, DType::kF32, 8);
  ASSERT_TRUE(attention.ok()) << attention.status();
  std::vector<float> logits(3 * 99), one(99);
  const auto view = [](std::vector<float>& values) {
    return TensorView::Of(values.data(), DType::kF32, static_cast<std::int64_t>(values.size()) / 99,
                          99);
  };
  const std::vector<std::int32_t> rows = {2, 0, 2};
  EXPECT_FALSE((*model)->ComputeLogits(rows, view(logits), *stream_).ok()) << "before any step";

  ASSERT_TRUE((*attention)->Plan(0, 4, *stream_).ok());
  const std::span<const std::int64_t> slots = (*attention)->slot_mapping();
  const std::vector<TokenId> ids = {5, 6, 7, 8};
  const std::vector<std::int32_t> positions = {0, 1, 2, 3};
  ASSERT_TRUE((*model)
                  ->Forward({.token_ids = ids, .positions = positions, .slot_mapping = slots},
                            **attention, *stream_)
                  .ok());
  ASSERT_TRUE((*model)->ComputeLogits(rows, view(logits), *stream_).ok());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ASSERT_TRUE((*model)->ComputeLogits({&rows[i], 1}, view(one), *stream_).ok());
    const std::vector<float> part(logits.begin() + static_cast<std::ptrdiff_t>(i) * 99,
                                  logits.begin() + static_cast<std::ptrdiff_t>(i + 1) * 99);
    EXPECT_LT(LargestDifference(part, one), 2 * FloatBound(files_->config(), Largest(one)));
  }
  for (const std::vector<std::int32_t>& bad :
       std::vector<std::vector<std::int32_t>>{{}, {4}, {-1}, {0, 1, 2, 3}}) {
    std::vector<float> room(bad.size() * 99);
    EXPECT_EQ((*model)->ComputeLogits(bad, view(room), *stream_).code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE((*model)->ComputeLogits(rows, view(one), *stream_).ok()) << "one row for three";
}

TEST_F(DecoderSteps, OptionsAreChecked) {
  for (const CausalLmOptions& options :
       {CausalLmOptions{.max_tokens = 0, .max_logit_rows = 1, .max_position = 1},
        CausalLmOptions{.max_tokens = 1, .max_logit_rows = 0, .max_position = 1},
        CausalLmOptions{.max_tokens = 1, .max_logit_rows = 1, .max_position = 0},
        CausalLmOptions{.max_tokens = 1, .max_logit_rows = 1, .max_position = 257}}) {
    EXPECT_EQ(Load(options).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(DecoderSteps, ProgressRisesToTheWhole) {
  for (const char* name : {"llama31", "llama_tied_f16"}) {
    files_ = OpenTiny(name);
    std::vector<std::int64_t> done;
    auto model = Load({.max_tokens = 1, .max_logit_rows = 1, .max_position = 1},
                      [&](std::int64_t done_bytes, std::int64_t total_bytes) {
                        done.push_back(done_bytes);
                        EXPECT_EQ(total_bytes, files_->total_weight_bytes());
                      });
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_GT((*model)->weight_bytes(), 0);
    ASSERT_FALSE(done.empty());
    EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
    EXPECT_EQ(done.back(), files_->total_weight_bytes());
  }
}

}  // namespace
}  // namespace thresher
