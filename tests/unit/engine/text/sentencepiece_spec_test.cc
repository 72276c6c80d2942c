// The .model reader on files that are damaged or of another kind, and GGUF's form of the same
// model.
#include "engine/text/sentencepiece_spec.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/gguf_file.h"
#include "engine/text/tokenizer.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/golden_path.h"
#include "tests/support/hard_strings.h"
#include "tests/support/temp_folder.h"

namespace thresher {
namespace {

using ::thresher::testing::HardStrings;
using ::thresher::testing::ReadTokenizerGolden;

const char* const kGoldenDir = testing::GoldenDir();

std::string Varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

std::string Number(int field, std::uint64_t value) { return Varint(field << 3) + Varint(value); }

std::string Float(int field, float value) {
  std::string bytes = Varint(field << 3 | 5);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(bits >> (8 * i) & 0xFF));
  return bytes;
}

std::string Bytes(int field, const std::string& bytes) {
  return Varint(field << 3 | 2) + Varint(bytes.size()) + bytes;
}

std::string Piece(const std::string& text, int type) {
  return Bytes(1, Bytes(1, text) + Number(3, type));
}

std::string Model(const std::string& trainer, const std::string& normalizer) {
  return Piece("<unk>", 2) + Piece("a", 1) + Bytes(2, trainer) + Bytes(3, normalizer);
}

const std::string kBpe = Number(3, 2);

void ExpectRefused(const std::string& model, absl::StatusCode code, const std::string& message) {
  const absl::Status status = ParseSentencePieceModel(model).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_NE(std::string(status.message()).find(message), std::string::npos) << status;
}

TEST(SentencePieceSpecTest, RefusesOtherKindsByName) {
  EXPECT_TRUE(ParseSentencePieceModel(Model(kBpe, "")).ok());
  const auto unknown = absl::StatusCode::kUnimplemented;
  ExpectRefused(Model("", ""), unknown, "UNIGRAM");
  ExpectRefused(Model(Number(3, 1), ""), unknown, "UNIGRAM");
  ExpectRefused(Model(Number(3, 3), ""), unknown, "WORD");
  ExpectRefused(Model(Number(3, 4), ""), unknown, "CHAR");
  ExpectRefused(Model(Number(3, 9), ""), unknown, "model type 9");
  ExpectRefused(Model(kBpe + Number(24, 1), ""), unknown, "treat_whitespace_as_suffix");
  ExpectRefused(Model(kBpe, Bytes(2, "map")), unknown, "precompiled_charsmap");
  ExpectRefused(Model(kBpe, Number(5, 0)), unknown, "escape_whitespaces");
  ExpectRefused(Model(kBpe, "") + Bytes(5, Bytes(2, "map")), unknown, "precompiled_charsmap");
  ExpectRefused(Model(kBpe, "") + Piece("b", 5), unknown, "UNUSED");
}

TEST(SentencePieceSpecTest, RefusesDamageNamingTheByte) {
  const auto damaged = absl::StatusCode::kInvalidArgument;
  ExpectRefused("", damaged, "no pieces");
  ExpectRefused(
      "\x0A\x05"
      "abc",
      damaged, "damaged at byte 2: a field is longer");
  ExpectRefused("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", damaged, "a field is longer");
  ExpectRefused(std::string(11, '\xFF'), damaged, "more than ten bytes");
  ExpectRefused("\x0B", damaged, "unknown wire type");
  ExpectRefused("\x0D\x01", damaged, "a number is cut off");
  ExpectRefused(Piece("a", 7), damaged, "piece 0 has type 7");
}

TEST(SentencePieceSpecTest, SurvivesTruncationAndFlippedBytes) {
  const std::string model = ReadTokenizerGolden(kGoldenDir, "sentencepiece_unknown.model");
  for (std::size_t size = 0; size < model.size(); size += 7) {
    TokenizerFromSentencePiece(model.substr(0, size), "").IgnoreError();
  }
  for (std::size_t at = 0; at < model.size(); at += 11) {
    std::string changed = model;
    changed[at] = static_cast<char>(changed[at] ^ 0xA5);
    const auto tokenizer = TokenizerFromSentencePiece(changed, "");
    std::vector<TokenId> ids;
    if (tokenizer.ok()) (*tokenizer)->Encode("Hello \xE4\xB8\xAD", {}, ids).IgnoreError();
  }
}

TEST(SentencePieceSpecTest, RefusesPiecesThatContradictEachOther) {
  const auto load = [](const std::string& more) {
    return TokenizerFromSentencePiece(more + Bytes(2, kBpe), "").status();
  };
  EXPECT_TRUE(load(Piece("<unk>", 2)).ok());
  EXPECT_EQ(load(Piece("a", 1)).message(), "no piece has type UNKNOWN");
  EXPECT_EQ(load(Piece("<unk>", 2) + Piece("a", 1) + Piece("a", 1)).message(),
            "token 'a' has two ids, 1 and 2");
  EXPECT_FALSE(load(Piece("<unk>", 2) + Piece("<0xGG>", 6)).ok());
  const std::string unordered =
      Bytes(1, Bytes(1, "a") + Float(2, std::numeric_limits<float>::quiet_NaN()));
  EXPECT_EQ(load(Piece("<unk>", 2) + unordered).message(), "piece 1 has a score that is NaN");
  EXPECT_FALSE(
      TokenizerFromSentencePiece(Piece("<unk>", 2) + Bytes(2, kBpe + Number(35, 1)), "").ok());
}

// The same model as a GGUF file has it makes the same ids.
TEST(SentencePieceSpecTest, GgufHoldsTheSameModel) {
  const std::string bytes = ReadTokenizerGolden(kGoldenDir, "sentencepiece_fallback.model");
  const auto spec = ParseSentencePieceModel(bytes);
  ASSERT_TRUE(spec.ok()) << spec.status();
  std::vector<std::string> tokens;
  std::string scores, types;
  for (const SentencePiece& piece : spec->pieces) {
    tokens.push_back(piece.text);
    scores += testing::GgufBuilder::Bytes(piece.score);
    types += testing::GgufBuilder::Bytes(static_cast<std::int32_t>(piece.type));
  }
  testing::GgufBuilder builder;
  builder.AddString("tokenizer.ggml.model", "llama");
  builder.AddStrings("tokenizer.ggml.tokens", tokens);
  builder.AddArray("tokenizer.ggml.scores", GgufType::kFloat32, tokens.size(), scores);
  builder.AddArray("tokenizer.ggml.token_type", GgufType::kInt32, tokens.size(), types);
  builder.AddInt("tokenizer.ggml.bos_token_id", 1);
  builder.AddInt("tokenizer.ggml.eos_token_id", 2);
  const testing::TempFolder folder;
  const auto file = GgufFile::Open(folder.Write("t.gguf", builder.Build()));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto from_gguf = TokenizerFromGguf(**file);
  ASSERT_TRUE(from_gguf.ok()) << from_gguf.status();
  const auto from_model = TokenizerFromSentencePiece(bytes, "");
  ASSERT_TRUE(from_model.ok()) << from_model.status();
  for (const std::string& text : HardStrings(kGoldenDir, 2000)) {
    std::vector<TokenId> expected, ids;
    ASSERT_TRUE((*from_model)->Encode(text, {}, expected).ok());
    ASSERT_TRUE((*from_gguf)->Encode(text, {}, ids).ok());
    ASSERT_EQ(ids, expected) << ::testing::PrintToString(text);
    EXPECT_EQ(Decode(**from_gguf, ids, true), Decode(**from_model, ids, true));
  }
}

}  // namespace
}  // namespace thresher
