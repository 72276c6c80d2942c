// Files that are damaged or ask for what is not known: refused, naming the place.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/model/gguf_file.h"
#include "engine/text/tokenizer.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/hard_strings.h"
#include "tests/support/temp_folder.h"

namespace thresher {
namespace {

using Json = nlohmann::json;

Json Tiny() {
  return Json::parse(R"({
    "added_tokens": [{"id": 3, "content": "<s>", "special": true, "normalized": false}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "post_processor": null,
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}
  })");
}

struct Refusal {
  const char* place;  // JSON pointer
  const char* value;
  absl::StatusCode code;
  const char* message;  // part of it
};

constexpr auto kUnknown = absl::StatusCode::kUnimplemented;
constexpr auto kDamaged = absl::StatusCode::kInvalidArgument;

const Refusal kRefusals[] = {
    {"/model/type", R"("Unigram")", kUnknown, "model.type: Unigram"},
    {"/model/type", R"("WordPiece")", kUnknown, "model.type: WordPiece"},
    {"/model/dropout", "0.1", kUnknown, "model.dropout"},
    {"/model/end_of_word_suffix", R"("</w>")", kUnknown, "model.end_of_word_suffix"},
    {"/model/continuing_subword_prefix", R"("##")", kUnknown, "model.continuing_subword_prefix"},
    {"/model/unk_token", R"("<unk>")", kDamaged, "model.unk_token"},
    {"/model/vocab", "[]", kDamaged, "model.vocab must be an object"},
    {"/model/vocab", R"({"a": -1})", kDamaged, "id -1"},
    {"/model/vocab", R"({"a": 1e9})", kDamaged, "which is no id"},
    {"/model/vocab", R"({"a": 9999999999})", kDamaged, "id 9999999999"},
    {"/model/vocab", R"({"a": 0, "b": 0})", kDamaged, "both have id 0"},
    {"/model/merges", R"(["a"])", kDamaged, "model.merges[0]"},
    {"/model/merges", R"(["a b c"])", kDamaged, "model.merges[0]"},
    {"/model/merges", R"([["a", 1]])", kDamaged, "model.merges[0]"},
    {"/model/merges", R"(["a x"])", kDamaged, "merge 0 needs token 'x'"},
    {"/model/merges", R"(["b a"])", kDamaged, "merge 0 needs token 'ba'"},
    {"/model/merges", "3", kDamaged, "model.merges must be an array"},
    {"/model/byte_fallback", "1", kDamaged, "model.byte_fallback must be true or false"},
    {"/normalizer", R"({"type": "NFKC"})", kUnknown, "normalizer: NFKC"},
    {"/normalizer",
     R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]})", kUnknown,
     "normalizer.normalizers[1]: Lowercase"},
    {"/normalizer", R"({"type": "Precompiled"})", kUnknown, "normalizer: Precompiled"},
    {"/normalizer", R"({"type": 3})", kDamaged, "normalizer.type must be a string"},
    {"/normalizer", R"({"type": "Prepend"})", kDamaged, "normalizer.prepend must be a string"},
    {"/pre_tokenizer", R"({"type": "Whitespace"})", kUnknown, "pre_tokenizer: Whitespace"},
    {"/pre_tokenizer", R"({"type": "Punctuation"})", kUnknown, "pre_tokenizer: Punctuation"},
    {"/pre_tokenizer",
     R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "Digits"}]})",
     kUnknown, "Digits after ByteLevel"},
    {"/pre_tokenizer", R"({"type": "Split", "pattern": {"Regex": "\\w+"}, "behavior": "Isolated"})",
     kUnknown, "pre_tokenizer.pattern.Regex"},
    {"/pre_tokenizer", R"({"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"})",
     kUnknown, "pre_tokenizer.pattern.Regex"},
    {"/pre_tokenizer", R"({"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated"})",
     kDamaged, "pre_tokenizer.pattern.String must not be empty"},
    {"/pre_tokenizer", R"({"type": "Split", "pattern": {"String": "x"}, "behavior": "Odd"})",
     kUnknown, "pre_tokenizer.behavior: Odd"},
    {"/pre_tokenizer", R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "odd"})",
     kUnknown, "pre_tokenizer.prepend_scheme: odd"},
    {"/decoder", "null", kUnknown, "decoder: null"},
    {"/decoder", R"({"type": "WordPiece"})", kUnknown, "decoder: WordPiece"},
    {"/decoder", R"({"type": "Sequence", "decoders": [{"type": "Strip", "content": " ",
      "start": 1, "stop": 0}]})",
     kUnknown, "Strip before Fuse"},
    {"/decoder", R"({"type": "Replace", "pattern": {"Regex": "x"}, "content": ""})", kUnknown,
     "Replace of other than a String"},
    {"/post_processor", R"({"type": "BertProcessing"})", kUnknown,
     "post_processor: BertProcessing"},
    {"/post_processor", R"({"type": "TemplateProcessing", "single": []})", kDamaged,
     "post_processor.single has no Sequence"},
    {"/post_processor", R"({"type": "TemplateProcessing", "single":
      [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
      "special_tokens": {"<s>": {"ids": [99]}}})",
     kDamaged, "ids[0] is no token's id"},
    {"/added_tokens", R"([{"id": 0, "content": "zz"}])", kDamaged, "both have id 0"},
    {"/added_tokens", R"([{"id": 5, "content": "ab"}])", kDamaged, "which has id 2 already"},
    {"/added_tokens", R"([{"id": -3, "content": "x"}])", kDamaged,
     "added_tokens[0] has no valid id"},
    {"/added_tokens", R"([{"content": "x"}])", kDamaged, "added_tokens[0].id must be an integer"},
    {"/added_tokens", R"([{"id": 7, "content": 7}])", kDamaged, "added_tokens[0].content"},
    {"/added_tokens", R"([{"id": 7, "content": "x", "lstrip": "yes"}])", kDamaged,
     "added_tokens[0].lstrip must be true or false"},
};

TEST(TokenizerRefusalTest, TheTinyTokenizerItselfLoads) {
  EXPECT_TRUE(TokenizerFromJson(Tiny().dump(), "").ok());
}

TEST(TokenizerRefusalTest, NamesWhatIsUnknownOrDamaged) {
  for (const Refusal& refusal : kRefusals) {
    Json document = Tiny();
    document[Json::json_pointer(refusal.place)] = Json::parse(refusal.value);
    const auto tokenizer = TokenizerFromJson(document.dump(), "");
    ASSERT_FALSE(tokenizer.ok()) << refusal.place << " " << refusal.value;
    EXPECT_EQ(tokenizer.status().code(), refusal.code) << tokenizer.status();
    EXPECT_NE(std::string(tokenizer.status().message()).find(refusal.message), std::string::npos)
        << tokenizer.status();
  }
}

TEST(TokenizerRefusalTest, SurvivesEveryTruncationAndEveryMissingMember) {
  const std::string text = Tiny().dump();
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(TokenizerFromJson(text.substr(0, size), "").ok());
  }
  const Json places = Tiny().flatten();
  for (const std::string other :
       {"null", "3", "\"x\"", "[]", "{}", "[[]]", "{\"type\": \"Sequence\"}"}) {
    for (const auto& [key, value] : places.items()) {
      Json document = Tiny();
      document[Json::json_pointer(key)] = Json::parse(other);
      TokenizerFromJson(document.dump(), "").IgnoreError();
    }
  }
}

TEST(TokenizerRefusalTest, ReadsTheConfigOrNamesItsFault) {
  const auto load = [](const char* config) { return TokenizerFromJson(Tiny().dump(), config); };
  EXPECT_FALSE(load("[").ok());
  EXPECT_FALSE(load(R"({"bos_token": 3})").ok());
  EXPECT_FALSE(load(R"({"added_tokens_decoder": {"x": {"content": "y"}}})").ok());
  const auto tokenizer =
      load(R"({"added_tokens_decoder": {"9": {"content": "<e>", "special": true}},
                                  "bos_token": null, "eos_token": "<e>"})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->bos(), std::nullopt);
  EXPECT_EQ((*tokenizer)->eos(), 9);
  EXPECT_EQ((*tokenizer)->vocab_size(), 10);
  EXPECT_EQ((*tokenizer)->TokenBytes(7), "");
}

// A GGUF file of three tokens, with one thing changed by `change`.
template <typename Change>
absl::Status LoadGguf(const char* model, const char* pre, Change change) {
  const testing::TempFolder folder;
  testing::GgufBuilder builder;
  builder.AddString("tokenizer.ggml.model", model);
  if (pre != nullptr) builder.AddString("tokenizer.ggml.pre", pre);
  builder.AddStrings("tokenizer.ggml.merges", {"a b"});
  change(builder);
  const auto file = GgufFile::Open(folder.Write("t.gguf", builder.Build()));
  EXPECT_TRUE(file.ok()) << file.status();
  if (!file.ok()) return file.status();
  return TokenizerFromGguf(**file).status();
}

std::string Ints(const std::vector<std::int32_t>& values) {
  std::string bytes;
  for (const std::int32_t value : values) bytes += testing::GgufBuilder::Bytes(value);
  return bytes;
}

void AddTokens(testing::GgufBuilder& builder, const std::vector<std::string>& tokens,
               const std::vector<std::int32_t>& types) {
  builder.AddStrings("tokenizer.ggml.tokens", tokens);
  builder.AddArray("tokenizer.ggml.token_type", GgufType::kInt32, types.size(), Ints(types));
}

void AddGood(testing::GgufBuilder& builder) { AddTokens(builder, {"a", "b", "ab"}, {1, 1, 1}); }

void ExpectRefused(const absl::Status& status, absl::StatusCode code, const std::string& message) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_NE(std::string(status.message()).find(message), std::string::npos) << status;
}

TEST(TokenizerRefusalTest, GgufNamesTheKey) {
  EXPECT_TRUE(LoadGguf("gpt2", "gpt-2", AddGood).ok());
  ExpectRefused(LoadGguf("gpt2", "no-such", AddGood), kUnknown, "tokenizer.ggml.pre 'no-such'");
  ExpectRefused(LoadGguf("gpt2", nullptr, AddGood), kDamaged, "tokenizer.ggml.pre is missing");
  ExpectRefused(LoadGguf("t5", "gpt-2", AddGood), kUnknown, "tokenizer.ggml.model 't5'");
  ExpectRefused(LoadGguf("llama", nullptr, AddGood), kDamaged, "tokenizer.ggml.scores");
  ExpectRefused(LoadGguf("gpt2", "gpt-2", [](auto&) {}), kDamaged, "tokenizer.ggml.tokens");
  const auto with = [](std::vector<std::string> tokens, std::vector<std::int32_t> types) {
    return LoadGguf("gpt2", "gpt-2", [&](auto& builder) { AddTokens(builder, tokens, types); });
  };
  ExpectRefused(with({"a", "b", "ab"}, {1, 1}), kDamaged, "token_type has 2 elements for 3");
  ExpectRefused(with({"a", "b", "ab"}, {1, 1, 7}), kDamaged, "token_type[2] is 7");
  ExpectRefused(with({"a", "b", "a"}, {1, 1, 1}), kDamaged, "two ids, 0 and 2");
  ExpectRefused(with({"a", "b", "c"}, {1, 1, 1}), kDamaged, "merge 0 needs token 'ab'");
}

TEST(TokenizerRefusalTest, GgufChecksTheNamedTokens) {
  const auto with = [](const char* key, std::uint32_t value) {
    return LoadGguf("gpt2", "gpt-2", [&](auto& builder) {
      AddGood(builder);
      builder.AddInt(key, value);
    });
  };
  EXPECT_TRUE(with("tokenizer.ggml.bos_token_id", 2).ok());
  ExpectRefused(with("tokenizer.ggml.bos_token_id", 3), kDamaged, "bos_token_id is 3");
  ExpectRefused(with("tokenizer.ggml.eos_token_id", 4294967295u), kDamaged, "eos_token_id");
  ExpectRefused(with("tokenizer.ggml.add_bos_token", 1), kDamaged, "names no such token");
}

}  // namespace
}  // namespace thresher
