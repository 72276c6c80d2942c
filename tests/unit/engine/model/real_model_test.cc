// SmolLM2-135M-Instruct, the model that a newcomer runs first, against the logits of transformers.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "engine/model/model_files.h"
#include "gtest/gtest.h"
#include "tests/support/logits_bounds.h"
#include "tests/support/logits_golden.h"
#include "tests/support/model_run.h"
#include "tests/support/real_model_fixture.h"
#include "tests/support/tested_backends.h"

namespace thresher {
namespace {

struct GoldenRow {
  float log_sum = 0;
  std::vector<TokenId> top;
  std::vector<float> top_logits;
  std::vector<float> probe_logits;
};

struct GoldenText {
  std::vector<TokenId> tokens;
  std::vector<GoldenRow> rows;
};

struct Golden {
  std::vector<TokenId> probes;
  std::vector<GoldenText> texts;
};

// The layout is in make_smollm2_logits.py.
class GoldenReader final {
 public:
  explicit GoldenReader(std::string bytes) : bytes_(std::move(bytes)) {}

  Golden Read() {
    const std::vector<std::int32_t> sizes = Take<std::int32_t>(3);
    Golden golden;
    golden.probes = Take<std::int32_t>(sizes[2]);
    golden.texts.resize(static_cast<std::size_t>(sizes[0]));
    for (GoldenText& text : golden.texts) {
      text.tokens = Take<std::int32_t>(Take<std::int32_t>(1)[0]);
      for (std::size_t i = 0; i < text.tokens.size(); ++i) {
        GoldenRow row;
        row.log_sum = Take<float>(1)[0];
        row.top = Take<std::int32_t>(sizes[1]);
        row.top_logits = Take<float>(sizes[1]);
        row.probe_logits = Take<float>(sizes[2]);
        text.rows.push_back(std::move(row));
      }
    }
    return golden;
  }
  bool AtEnd() const { return offset_ == bytes_.size(); }

 private:
  template <typename T>
  std::vector<T> Take(int count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    const std::size_t size = values.size() * sizeof(T);
    EXPECT_LE(offset_ + size, bytes_.size());
    if (offset_ + size <= bytes_.size()) std::memcpy(values.data(), bytes_.data() + offset_, size);
    offset_ += size;
    return values;
  }

  std::string bytes_;
  std::size_t offset_ = 0;
};

Golden ReadGolden() {
  std::ifstream file(testing::GoldenPath("logits/smollm2.golden"), std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  GoldenReader reader(bytes.str());
  Golden golden = reader.Read();
  EXPECT_TRUE(reader.AtEnd());
  return golden;
}

double LogSum(const float* logits, std::size_t size) {
  const double largest = *std::max_element(logits, logits + size);
  double sum = 0;
  for (std::size_t i = 0; i < size; ++i) sum += std::exp(logits[i] - largest);
  return largest + std::log(sum);
}

class RealModel : public testing::RealModelFixture {
 protected:
  void SetUp() override {
    RealModelFixture::SetUp();
    if (model_path_.empty()) return;
    if (!MachineRuns(TestedBackends().front())) GTEST_SKIP() << "NO CUDA DRIVER: not run";
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "takes minutes under ThreadSanitizer; tiny models run the same code there";
#endif
    auto files = ModelFiles::Open(model_path_);
    ASSERT_TRUE(files.ok()) << files.status();
    files_ = *std::move(files);
  }

  static bool OnGpu() { return TestedBackends().front().device == DeviceKind::kCuda; }

  // Every row's stored logits must be within the bound, and its best token the golden's or as good
  // as it within twice the bound.
  void ExpectGoldenLogits(testing::ModelRunOptions options) {
    options.device = TestedBackends().front().device;
    const auto vocab = static_cast<std::size_t>(files_->config().vocab_size);
    const Golden golden = ReadGolden();
    ASSERT_EQ(golden.texts.size(), 3u);
    std::vector<std::vector<TokenId>> sequences;
    double largest_logit = 0;
    for (const GoldenText& text : golden.texts) {
      EXPECT_GE(text.tokens.size(), 64u);
      sequences.push_back(text.tokens);
      for (const GoldenRow& row : text.rows) {
        largest_logit = std::max(largest_logit, testing::Largest(row.top_logits));
      }
    }
    auto logits = testing::RunSequences(*files_, sequences, options);
    ASSERT_TRUE(logits.ok()) << logits.status();
    for (std::size_t i = 0; i < golden.texts.size(); ++i) {
      const GoldenText& text = golden.texts[i];
      const double bound = options.full_precision
                               ? testing::FloatBound(files_->config(), largest_logit) +
                                     testing::RotationBound(text.tokens.size(), largest_logit)
                               : testing::Bfloat16Bound(files_->config(), largest_logit,
                                                        OnGpu() ? DType::kBF16 : DType::kF32);
      for (std::size_t row = 0; row < text.rows.size(); ++row) {
        const float* got = (*logits)[0][i].data() + row * vocab;
        EXPECT_LT(Difference(got, golden.probes, text.rows[row]), bound) << i << " " << row;
        EXPECT_LE(*std::max_element(got, got + vocab) - got[text.rows[row].top[0]], 2 * bound)
            << i << " " << row;
      }
    }
  }

  double Difference(const float* logits, const std::vector<TokenId>& probes,
                    const GoldenRow& expected) const {
    const auto vocab = static_cast<std::size_t>(files_->config().vocab_size);
    std::vector<float> got = {static_cast<float>(LogSum(logits, vocab))};
    for (const TokenId token : expected.top) got.push_back(logits[token]);
    for (const TokenId token : probes) got.push_back(logits[token]);
    std::vector<float> wanted = {expected.log_sum};
    wanted.insert(wanted.end(), expected.top_logits.begin(), expected.top_logits.end());
    wanted.insert(wanted.end(), expected.probe_logits.begin(), expected.probe_logits.end());
    return testing::LargestDifference(got, wanted);
  }

  std::unique_ptr<ModelFiles> files_;
};

TEST_F(RealModel, IsReadAsItsFileSays) {
  const ModelConfig& config = files_->config();
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.num_layers, 30);
  EXPECT_EQ(config.hidden_size, 576);
  EXPECT_EQ(config.intermediate_size, 1536);
  EXPECT_EQ(config.num_heads, 9);
  EXPECT_EQ(config.num_kv_heads, 3);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.vocab_size, 49152);
  EXPECT_EQ(config.max_position, 8192);
  EXPECT_EQ(config.rope.theta, 100000);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(files_->generation_defaults().end_tokens, std::vector<TokenId>{2});
  ASSERT_TRUE(files_->chat_template().has_value());
  EXPECT_NE(files_->chat_template()->find("<|im_start|>"), std::string::npos);
}

TEST_F(RealModel, GivesTheLogitsOfTransformersInChunks) { ExpectGoldenLogits({.chunk = 40}); }

TEST_F(RealModel, GivesThemOnThreeRanks) {
  if (OnGpu()) GTEST_SKIP() << "one GPU is one rank";
  ExpectGoldenLogits({.num_ranks = 3});
}

// Every row's best token is the golden's, or as good as it within the bound.
TEST_F(RealModel, StaysNearInTheNarrowTypesOfServing) {
  if (!OnGpu()) GTEST_SKIP() << "on the CPU the tiny models show it";
  ExpectGoldenLogits({.full_precision = false, .kv_dtype = DType::kBF16, .chunk = 40});
}

}  // namespace
}  // namespace thresher
