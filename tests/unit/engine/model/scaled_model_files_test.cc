// A stretched model is the model that its maker would have published with YaRN.
#include "engine/model/scaled_model_files.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/logits_golden.h"
#include "tests/support/model_run.h"
#include "tests/support/temp_folder.h"

namespace thresher {
namespace {

using testing::GoldenPath;

constexpr char kPlain[] = "models/llama_tied_f16";  // of 128 positions

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// The plain model, published with a context of twice its own.
void WriteYarnModel(const testing::TempFolder& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(GoldenPath(kPlain))) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (entry.path().filename() == "config.json") {
      bytes =
          Replaced(bytes, "\"max_position_embeddings\": 128", "\"max_position_embeddings\": 256");
      bytes = Replaced(bytes, "\"rope_scaling\": null",
                       "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2.0, "
                       "\"original_max_position_embeddings\": 128}");
    }
    folder.Write(entry.path().filename().string(), bytes);
  }
}

std::unique_ptr<ModelFiles> Open(const std::string& model) {
  return ModelFiles::Open(GoldenPath(model)).value();
}

std::vector<float> LogitsOf(const ModelFiles& files) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < 150; ++i) tokens.push_back(static_cast<TokenId>(2 + i * 37 % 90));
  auto logits = testing::RunModel(files, tokens, {});
  EXPECT_TRUE(logits.ok()) << logits.status();
  return logits.ok() ? (*logits)[0] : std::vector<float>();
}

TEST(StretchContext, IsTheModelPublishedWithYarn) {
  const testing::TempFolder folder;
  WriteYarnModel(folder);
  const auto published = ModelFiles::Open(folder.path());
  ASSERT_TRUE(published.ok()) << published.status();
  const auto stretched = StretchContext(Open(kPlain), 2);
  ASSERT_TRUE(stretched.ok()) << stretched.status();
  EXPECT_EQ((*stretched)->config().max_position, 256);
  EXPECT_EQ((*stretched)->config().rope.original_max_position, 128);
  EXPECT_EQ((*stretched)->total_weight_bytes(), (*published)->total_weight_bytes());
  EXPECT_TRUE((*stretched)->HasWeight("model.norm.weight"));
  // More tokens than the plain model has positions.
  EXPECT_EQ(LogitsOf(**stretched), LogitsOf(**published));
}

TEST(StretchContext, ByOneIsTheModelAsItIs) {
  for (const char* model : {kPlain, "models/llama31", "models/mistral_window"}) {
    const int max_position = Open(model)->config().max_position;
    const auto same = StretchContext(Open(model), 1);
    ASSERT_TRUE(same.ok()) << same.status();
    EXPECT_EQ((*same)->config().max_position, max_position) << model;
    EXPECT_NE((*same)->config().rope.scaling, RopeScaling::kYarn) << model;
  }
}

TEST(StretchContext, RefusesFactorsAndModelsItCannotStretch) {
  for (const double factor : {0.5, -2.0, 65.0, static_cast<double>(NAN)}) {
    const absl::Status status = StretchContext(Open(kPlain), factor).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << factor;
    EXPECT_NE(std::string(status.message()).find("from 1 to 64"), std::string::npos) << status;
  }
  EXPECT_EQ(StretchContext(Open("models/llama31"), 2).status(),
            absl::InvalidArgumentError("the model scales its rotary angles already"));
  EXPECT_EQ(StretchContext(Open("models/mistral_window"), 2).status(),
            absl::InvalidArgumentError("the model has a sliding window"));
}

}  // namespace
}  // namespace thresher
