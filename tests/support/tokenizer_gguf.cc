// Only what the golden tokenizers use is carried over.
#include "tests/support/tokenizer_gguf.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "tests/support/gguf_builder.h"

namespace thresher::testing {

std::string WriteTokenizerGguf(const TempFolder& folder, std::string_view tokenizer_json,
                               std::string_view pre) {
  const auto document = nlohmann::json::parse(tokenizer_json);
  const auto& vocabulary = document["model"]["vocab"];
  std::vector<std::string> tokens(vocabulary.size());
  std::vector<std::int32_t> types(vocabulary.size(), 1);
  for (const auto& [text, id] : vocabulary.items()) tokens.at(id.get<std::size_t>()) = text;
  for (const auto& token : document["added_tokens"]) types.at(token["id"].get<std::size_t>()) = 3;
  std::vector<std::string> merges;
  for (const auto& merge : document["model"]["merges"]) {
    merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  std::string type_bytes;
  for (const std::int32_t type : types) type_bytes += GgufBuilder::Bytes(type);
  GgufBuilder builder;
  builder.AddString("tokenizer.ggml.model", "gpt2");
  builder.AddString("tokenizer.ggml.pre", pre);
  builder.AddStrings("tokenizer.ggml.tokens", tokens);
  builder.AddArray("tokenizer.ggml.token_type", GgufType::kInt32, types.size(), type_bytes);
  builder.AddStrings("tokenizer.ggml.merges", merges);
  for (const auto& token : document["added_tokens"]) {
    if (token["content"] == "<|begin_of_text|>") {
      builder.AddInt("tokenizer.ggml.bos_token_id", token["id"].get<std::uint32_t>());
    }
  }
  return folder.Write("tokenizer.gguf", builder.Build());
}

}  // namespace thresher::testing
