// Which file a model's tokenizer comes from, and that it fits the model.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/model/model_files.h"
#include "gtest/gtest.h"
#include "tests/support/logits_golden.h"
#include "tests/support/temp_folder.h"

namespace thresher {
namespace {

using nlohmann::json;
using testing::TempFolder;

// A byte-level tokenizer of `size` tokens: "a", "b", …
std::string TokenizerJson(int size) {
  json vocab;
  for (int i = 0; i < size; ++i)
    vocab[i < 26 ? std::string(1, static_cast<char>('a' + i)) : "t" + std::to_string(i)] = i;
  return json{{"version", "1.0"},
              {"truncation", nullptr},
              {"padding", nullptr},
              {"added_tokens", json::array()},
              {"normalizer", nullptr},
              {"pre_tokenizer",
               {{"type", "ByteLevel"},
                {"add_prefix_space", false},
                {"trim_offsets", true},
                {"use_regex", true}}},
              {"post_processor", nullptr},
              {"decoder", {{"type", "ByteLevel"}}},
              {"model",
               {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", false},
                {"byte_fallback", false},
                {"vocab", vocab},
                {"merges", json::array()}}}}
      .dump();
}

class ModelTokenizer : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::copy(testing::GoldenPath("models/llama31"), folder_.path(),
                          std::filesystem::copy_options::recursive);
  }
  absl::StatusOr<std::unique_ptr<Tokenizer>> Load() {
    files_ = *ModelFiles::Open(folder_.path());
    return files_->LoadTokenizer();
  }
  TempFolder folder_;
  std::unique_ptr<ModelFiles> files_;
};

TEST_F(ModelTokenizer, ComesFromTokenizerJson) {
  folder_.Write("tokenizer.json", TokenizerJson(99));
  folder_.Write("tokenizer.model", "never read");
  auto tokenizer = Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::vector<TokenId> ids;
  ASSERT_TRUE((*tokenizer)->Encode("cab", {}, ids).ok());
  EXPECT_EQ(ids, (std::vector<TokenId>{2, 0, 1}));
}

TEST_F(ModelTokenizer, MayHaveFewerTokensThanTheEmbeddingHasRowsButNotMore) {
  folder_.Write("tokenizer.json", TokenizerJson(26));
  EXPECT_TRUE(Load().ok());
  folder_.Write("tokenizer.json", TokenizerJson(100));
  const absl::Status status = Load().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("100 tokens"), std::string::npos) << status;
}

TEST_F(ModelTokenizer, ThatIsDamagedNamesItsFile) {
  folder_.Write("tokenizer.model", "\x01\x02 no protobuf");
  absl::Status status = Load().status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(std::string(status.message()).find("tokenizer.model"), std::string::npos) << status;
  folder_.Write("tokenizer.json", "{");
  status = Load().status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(std::string(status.message()).find("tokenizer.json"), std::string::npos) << status;
}

}  // namespace
}  // namespace thresher
