// Model files with random bytes changed: they open or are refused, and what opens can be read. The
// sanitizers watch.
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "engine/model/gguf_parser.h"
#include "engine/model/model_files.h"
#include "engine/model/weight_table.h"
#include "gtest/gtest.h"
#include "tests/support/logits_golden.h"
#include "tests/support/reference/dequantize.h"
#include "tests/support/temp_folder.h"

namespace thresher {
namespace {

using testing::TempFolder;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// Changes one to four bytes below `limit`: to anything, or to what a size would be at its worst.
std::string Mutate(std::string bytes, std::size_t limit, std::mt19937& random) {
  const int changes = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < changes; ++i) {
    constexpr char kWorst[] = {'\0', '\1', '\x7f', '\x80', '\xff'};
    const std::size_t at = random() % limit;
    bytes[at] = random() % 2 == 0 ? kWorst[random() % sizeof kWorst] : static_cast<char>(random());
  }
  return bytes;
}

// Reads all of an opened model; its numbers may be anything.
void ReadAll(const ModelFiles& files) {
  for (const ExpectedWeight& weight : ExpectedWeights(files.config())) {
    auto source = files.Weight(weight.name);
    ASSERT_TRUE(source.ok()) << source.status();
    const std::vector<double> values = testing::Dequantize(*source);
    ASSERT_EQ(values.size(), static_cast<std::size_t>(weight.rows * weight.cols)) << weight.name;
  }
}

TEST(MutatedFiles, GgufOpensOrIsRefused) {
  const TempFolder folder;
  const std::string whole = ReadFile(testing::GoldenPath("models/qwen2_q8.gguf"));
  auto contents = ParseGguf(std::as_bytes(std::span(whole)));
  ASSERT_TRUE(contents.ok()) << contents.status();
  const auto header = static_cast<std::size_t>(contents->tensors.front().bytes.data() -
                                               std::as_bytes(std::span(whole)).data());
  std::mt19937 random(1);
  int opened = 0, refused = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string path = folder.Write("m.gguf", Mutate(whole, header, random));
    auto files = ModelFiles::Open(path);
    if (!files.ok()) {
      EXPECT_NE(std::string(files.status().message()).find(path), std::string::npos);
      ++refused;
      continue;
    }
    ++opened;
    // Changed tokens and templates are no business of the weights; loading them must not crash.
    (void)(*files)->LoadTokenizer();
    if (opened % 20 == 0) ReadAll(**files);
  }
  EXPECT_GT(opened, 0);
  EXPECT_GT(refused, 0);
}

TEST(MutatedFiles, SafetensorsAndConfigOpenOrAreRefused) {
  const TempFolder folder;
  std::filesystem::copy(testing::GoldenPath("models/mistral_window"), folder.path(),
                        std::filesystem::copy_options::recursive);
  std::mt19937 random(2);
  int opened = 0, refused = 0;
  for (const char* name : {"model.safetensors", "config.json", "generation_config.json"}) {
    const std::string whole = ReadFile(folder.path() + "/" + name);
    const std::size_t limit = std::min<std::size_t>(whole.size(), 2000);
    for (int i = 0; i < 100; ++i) {
      folder.Write(name, Mutate(whole, limit, random));
      auto files = ModelFiles::Open(folder.path());
      ++(files.ok() ? opened : refused);
      if (files.ok() && opened % 20 == 0) ReadAll(**files);
    }
    folder.Write(name, whole);
  }
  EXPECT_TRUE(ModelFiles::Open(folder.path()).ok());
  EXPECT_GT(opened, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace thresher
