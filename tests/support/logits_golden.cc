#include "tests/support/logits_golden.h"

#include <fstream>
#include <iterator>
#include <sstream>

#include "gtest/gtest.h"

namespace thresher::testing {

LogitsGolden ReadLogitsGolden(const std::string& name) {
  LogitsGolden golden;
  std::ifstream tokens(GoldenPath("logits/" + name + ".tokens"));
  golden.tokens.assign(std::istream_iterator<TokenId>(tokens), {});
  std::ifstream file(GoldenPath("logits/" + name + ".f32"), std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  const std::string text = bytes.str();
  golden.logits.resize(text.size() / sizeof(float));
  text.copy(reinterpret_cast<char*>(golden.logits.data()), golden.logits.size() * sizeof(float));
  EXPECT_FALSE(golden.tokens.empty()) << name;
  EXPECT_FALSE(golden.logits.empty()) << name;
  return golden;
}

std::string StemOf(const std::string& model) { return model.substr(0, model.find('.')); }

std::vector<std::string> TinyModels() {
  return {"llama31",    "llama_tied_f16",   "llama_yarn_biases", "mistral_window",  "qwen2_sharded",
          "qwen3_bf16", "llama_mixed.gguf", "qwen2_q8.gguf",     "qwen3_plain.gguf"};
}

}  // namespace thresher::testing
