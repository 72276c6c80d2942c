// Ids equal to Hugging Face's tokenizers' and to sentencepiece's on hard strings, and text back.
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/gguf_file.h"
#include "engine/text/tokenizer.h"
#include "tests/support/golden_path.h"
#include "tests/support/hard_strings.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tokenizer_gguf.h"

namespace thresher {
namespace {

using ::thresher::testing::GoldenHashes;
using ::thresher::testing::HardStrings;
using ::thresher::testing::IdsHash;
using ::thresher::testing::ReadTokenizerGolden;

const char* const kGoldenDir = testing::GoldenDir();

constexpr EncodeOptions kPlain{.add_special_tokens = false, .parse_special_tokens = false};
constexpr EncodeOptions kNoAdded{.add_special_tokens = false};

std::string IdsText(const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += std::to_string(id) + " ";
  return text;
}

// Prints the first few strings that differ; the golden script's --print shows what is expected.
void ExpectGoldenIds(const Tokenizer& tokenizer, const EncodeOptions& options,
                     const std::string& name, std::size_t num_strings) {
  const std::vector<std::uint32_t> hashes = GoldenHashes(kGoldenDir, name);
  ASSERT_EQ(hashes.size(), num_strings);
  const std::vector<std::string> strings = HardStrings(kGoldenDir, static_cast<int>(num_strings));
  int num_different = 0;
  for (std::size_t i = 0; i < strings.size(); ++i) {
    std::vector<TokenId> ids;
    const absl::Status status = tokenizer.Encode(strings[i], options, ids);
    ASSERT_TRUE(status.ok()) << status;
    if (IdsHash(ids) == hashes[i]) continue;
    if (++num_different <= 3) {
      ADD_FAILURE() << name << " string " << i << ": " << ::testing::PrintToString(strings[i])
                    << "\nids " << IdsText(ids);
    }
  }
  EXPECT_EQ(num_different, 0) << name;
}

void ExpectRoundTrip(const Tokenizer& tokenizer, const EncodeOptions& options, int num_strings) {
  for (const std::string& text : HardStrings(kGoldenDir, num_strings)) {
    std::vector<TokenId> ids;
    ASSERT_TRUE(tokenizer.Encode(text, options, ids).ok());
    ASSERT_EQ(Decode(tokenizer, ids, /*skip_special_tokens=*/false), text) << IdsText(ids);
  }
}

std::unique_ptr<Tokenizer> FromJson(const std::string& name) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      TokenizerFromJson(ReadTokenizerGolden(kGoldenDir, name + ".json"), "");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

std::unique_ptr<Tokenizer> FromSentencePiece(const std::string& model) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = TokenizerFromSentencePiece(model, "");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

struct JsonCase {
  std::string name;
  int num_strings;
  bool round_trip;  // no normalizer is declared, no added token takes white space
};

class TokenizerJsonGoldenTest : public ::testing::TestWithParam<JsonCase> {};

TEST_P(TokenizerJsonGoldenTest, MakesTheReferencesIds) {
  const std::unique_ptr<Tokenizer> tokenizer = FromJson(GetParam().name);
  ASSERT_NE(tokenizer, nullptr);
  ExpectGoldenIds(*tokenizer, {}, GetParam().name, GetParam().num_strings);
  if (GetParam().round_trip) ExpectRoundTrip(*tokenizer, kNoAdded, GetParam().num_strings);
}

INSTANTIATE_TEST_SUITE_P(
    All, TokenizerJsonGoldenTest,
    ::testing::Values(JsonCase{"gpt2", 10000, true}, JsonCase{"llama3", 10000, true},
                      JsonCase{"qwen2", 10000, false}, JsonCase{"llama2", 10000, false},
                      JsonCase{"flags", 4000, false}, JsonCase{"metaspace", 4000, false}),
    [](const auto& info) { return info.param.name; });

struct GgufCase {
  std::string pre;
  std::string json;    // where the vocabulary and the merges come from
  std::string golden;  // which ids are expected
  int num_strings;
};

class TokenizerGgufGoldenTest : public ::testing::TestWithParam<GgufCase> {};

TEST_P(TokenizerGgufGoldenTest, MakesTheReferencesIds) {
  const GgufCase& golden = GetParam();
  const testing::TempFolder folder;
  const std::string path = testing::WriteTokenizerGguf(
      folder, ReadTokenizerGolden(kGoldenDir, golden.json + ".json"), golden.pre);
  const absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = TokenizerFromGguf(**file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  ExpectGoldenIds(**tokenizer, {}, golden.golden, golden.num_strings);
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerGgufGoldenTest,
                         ::testing::Values(GgufCase{"gpt-2", "gpt2", "gpt2", 10000},
                                           GgufCase{"llama-bpe", "llama3", "llama3", 10000},
                                           GgufCase{"qwen2", "qwen2", "qwen2", 10000},
                                           GgufCase{"smollm", "gpt2", "gpt2_smollm", 4000},
                                           GgufCase{"gpt-4o", "gpt2", "gpt2_gpt-4o", 4000},
                                           GgufCase{"tekken", "gpt2", "gpt2_tekken", 4000},
                                           GgufCase{"default", "gpt2", "gpt2_default", 4000}),
                         [](const auto& info) {
                           std::string name = info.param.pre;
                           for (char& c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

TEST(SentencePieceGoldenTest, MakesTheReferencesIdsWithByteFallback) {
  const std::unique_ptr<Tokenizer> tokenizer =
      FromSentencePiece(ReadTokenizerGolden(kGoldenDir, "sentencepiece_fallback.model"));
  ASSERT_NE(tokenizer, nullptr);
  ExpectGoldenIds(*tokenizer, kPlain, "sentencepiece_fallback", 10000);
}

TEST(SentencePieceGoldenTest, MakesTheReferencesIdsWithUnknownPieces) {
  const std::unique_ptr<Tokenizer> tokenizer =
      FromSentencePiece(ReadTokenizerGolden(kGoldenDir, "sentencepiece_unknown.model"));
  ASSERT_NE(tokenizer, nullptr);
  ExpectGoldenIds(*tokenizer, kPlain, "sentencepiece_unknown", 10000);
}

// The model is half a megabyte and belongs to the package mistral-common, so it is not stored here.
TEST(SentencePieceGoldenTest, MakesTheReferencesIdsOfMistralsModel) {
  const char* path = std::getenv("THRESHER_TEST_MISTRAL_MODEL");
  if (path == nullptr) {
    GTEST_SKIP() << "THRESHER_TEST_MISTRAL_MODEL does not name mistral-common's tokenizer.model.v1";
  }
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(file.is_open()) << path;
  const std::unique_ptr<Tokenizer> tokenizer =
      FromSentencePiece(std::string(std::istreambuf_iterator<char>(file), {}));
  ASSERT_NE(tokenizer, nullptr);
  ExpectGoldenIds(*tokenizer, kPlain, "mistral_v1", 10000);
}

TEST(SmolLm2GoldenTest, MakesTheReferencesIds) {
  const char* path = std::getenv("THRESHER_TEST_MODEL");
  const char* required = std::getenv("THRESHER_REQUIRE_MODEL");
  if (path == nullptr || *path == '\0') {
    ASSERT_TRUE(required == nullptr || std::string(required) != "1")
        << "THRESHER_REQUIRE_MODEL is 1, but THRESHER_TEST_MODEL names no file";
    GTEST_SKIP() << "THRESHER_TEST_MODEL does not name SmolLM2-135M-Instruct.Q4_1.gguf";
  }
  const absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = TokenizerFromGguf(**file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->vocab_size(), 49152);
  EXPECT_EQ((*tokenizer)->Find("<|im_end|>"), (*tokenizer)->eos());
  ExpectGoldenIds(**tokenizer, {}, "smollm2", 10000);
}

}  // namespace
}  // namespace thresher
