// Models without a file: the known sizes of their architectures, and that the tiny one computes.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "engine/attention/model_fingerprint.h"
#include "engine/engine.h"
#include "engine/model/synthetic_model_files.h"
#include "engine/model/weight_table.h"
#include "gtest/gtest.h"
#include "tests/support/logits_bounds.h"
#include "tests/support/model_run.h"
#include "tests/support/tiny_engine.h"

namespace thresher {
namespace {

std::unique_ptr<ModelFiles> OpenShape(const std::string& shape) {
  auto files = ModelFiles::Open("synthetic:" + shape);
  EXPECT_TRUE(files.ok()) << files.status();
  return files.ok() ? *std::move(files) : nullptr;
}

// The numbers of parameters that the models' cards and safetensors headers give.
TEST(SyntheticModel, HasAsManyParametersAsItsModel) {
  EXPECT_EQ(OpenShape("llama-3.1-8b")->total_weight_bytes(), 2 * std::int64_t{8030261248});
  EXPECT_EQ(OpenShape("llama-3.1-70b")->total_weight_bytes(), 2 * std::int64_t{70553706496});
  EXPECT_EQ(OpenShape("qwen3-8b")->total_weight_bytes(), 2 * std::int64_t{8190735360});
}

TEST(SyntheticModel, EveryShapeIsValidAndHasItsWeights) {
  for (const char* shape : {"llama-3.1-8b", "llama-3.1-70b", "qwen3-8b", "tiny"}) {
    const auto files = OpenShape(shape);
    EXPECT_TRUE(files->config().Validate().ok()) << files->config().Validate();
    for (const ExpectedWeight& expected : ExpectedWeights(files->config())) {
      const auto source = files->Weight(expected.name);
      ASSERT_TRUE(source.ok()) << source.status();
      EXPECT_EQ(source->rows, expected.rows) << expected.name;
      EXPECT_EQ(source->cols, expected.cols) << expected.name;
      EXPECT_EQ(source->generated.has_value(), !expected.is_vector) << expected.name;
      EXPECT_TRUE(files->HasWeight(expected.name));
    }
    EXPECT_EQ((*files->LoadTokenizer())->vocab_size(), files->config().vocab_size);
  }
  EXPECT_EQ(OpenShape("qwen3-8b")->Weight("model.layers.0.self_attn.q_proj.bias").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(SyntheticModel, RefusesAnUnknownShapeAndListsTheKnown) {
  const absl::Status status = ModelFiles::Open("synthetic:llama-9").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(),
            "synthetic:llama-9: there is no such shape; it must be one of llama-3.1-8b, "
            "llama-3.1-70b, qwen3-8b, tiny");
}

TEST(SyntheticModel, WeightsDifferAndHaveFingerprints) {
  const auto files = OpenShape("tiny");
  std::vector<std::uint64_t> seeds;
  for (const ExpectedWeight& expected : ExpectedWeights(files->config())) {
    const WeightSource source = *files->Weight(expected.name);
    if (source.generated.has_value()) seeds.push_back(source.generated->seed);
  }
  std::sort(seeds.begin(), seeds.end());
  EXPECT_EQ(std::adjacent_find(seeds.begin(), seeds.end()), seeds.end());
  const auto print = FingerprintOf(*files, files->config(), DType::kBF16);
  ASSERT_TRUE(print.ok()) << print.status();
  EXPECT_TRUE(CheckFingerprint(*print, *print).ok());
}

std::vector<TokenId> SomeTokens(int count) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back((i * 131 + 7) % 1024);
  return tokens;
}

// Logits spread as the head's deviation says: 3, within what 1,024 of them of one row allow
// (a deviation of 1/45 of it) and what the last norm leaves of a row's own spread.
TEST(SyntheticModel, TinyGivesLogitsOfASaneSpread) {
  const auto files = OpenShape("tiny");
  const auto logits = testing::RunModel(*files, SomeTokens(40), {});
  ASSERT_TRUE(logits.ok()) << logits.status();
  for (int row = 0; row < 40; ++row) {
    const auto begin = (*logits)[0].begin() + row * 1024;
    const double mean = std::accumulate(begin, begin + 1024, 0.0) / 1024;
    double squares = 0;
    for (auto it = begin; it != begin + 1024; ++it) squares += (*it - mean) * (*it - mean);
    EXPECT_NEAR(std::sqrt(squares / 1024), 3, 0.6) << "row " << row;
  }
}

// Each rank makes its part of the same matrices: only the order of sums differs.
TEST(SyntheticModel, RanksShareOneModel) {
  const auto files = OpenShape("tiny");
  const auto alone = testing::RunModel(*files, SomeTokens(40), {});
  const auto shared = testing::RunModel(*files, SomeTokens(40), {.num_ranks = 2});
  ASSERT_TRUE(alone.ok()) << alone.status();
  ASSERT_TRUE(shared.ok()) << shared.status();
  const double bound = testing::FloatBound(files->config(), testing::Largest((*alone)[0]));
  EXPECT_LT(testing::LargestDifference((*shared)[0], (*alone)[0]), bound);
  EXPECT_LT(testing::LargestDifference((*shared)[1], (*alone)[0]), bound);
}

TEST(SyntheticModel, AnEngineServesIt) {
  EngineOptions options;
  options.model_path = "synthetic:tiny";
  options.kv_cache_tokens = 1024;
  options.backend.num_threads = 1;
  const auto engine = Engine::Create(options, nullptr, LoadProgress());
  ASSERT_TRUE(engine.ok()) << engine.status();
  GenerationRequest request;
  ASSERT_TRUE((*engine)->tokenizer().Encode("hello", {}, request.prompt).ok());
  request.max_tokens = 12;
  request.sampling.temperature = 0;
  const testing::Generated first = testing::Generate(**engine, request);
  const testing::Generated second = testing::Generate(**engine, request);
  ASSERT_TRUE(first.status.ok()) << first.status;
  EXPECT_EQ(first.tokens.size(), 12u) << "no token ends a sequence";
  EXPECT_EQ(first.tokens, second.tokens);
}

}  // namespace
}  // namespace thresher
