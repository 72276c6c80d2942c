// Text to token ids and back. Immutable after loading; any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scheduler/ids.h"

namespace thresher {

struct EncodeOptions {
  bool add_special_tokens = true;    // the tokenizer's own beginning and end tokens
  bool parse_special_tokens = true;  // "<|im_start|>" in the text becomes that token
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Appends the ids. InvalidArgument if the text is not UTF-8 (naming the byte), longer than 256
  // MiB or too hard for the tokenizer's pattern; then `ids` is as it was. Cost: O(n log n) for n
  // bytes, whatever the text. A byte that a byte-level vocabulary has no token for gets none, as in
  // Hugging Face's tokenizers.
  virtual absl::Status Encode(std::string_view text, const EncodeOptions& options,
                              std::vector<TokenId>& ids) const = 0;
  // The bytes that a token stands for: a piece of UTF-8, not always whole code points. Empty for an
  // id that no token has. For a special token its literal text.
  virtual std::string_view TokenBytes(TokenId id) const = 0;
  // True if the leading space of a text's first token belongs to the tokenizer (SentencePiece's
  // dummy prefix).
  virtual bool strips_leading_space() const = 0;
  virtual bool IsSpecial(TokenId id) const = 0;
  virtual int vocab_size() const = 0;  // the largest id + 1
  virtual std::optional<TokenId> bos() const = 0;
  virtual std::optional<TokenId> eos() const = 0;
  // The id of a token given by its exact text, special ones included.
  virtual std::optional<TokenId> Find(std::string_view token) const = 0;
};

// Hugging Face's tokenizer.json (byte-level BPE and SentencePiece-style BPE) and the
// tokenizer_config.json beside it, which names the beginning and end tokens; empty if there is
// none. Unimplemented naming the part of the pipeline that is not known; InvalidArgument for a
// damaged file, naming the place.
absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerFromJson(std::string_view json,
                                                             std::string_view config_json);
// A SentencePiece .model file of type BPE, and the tokenizer_config.json beside it (add_bos_token,
// true if not said, add_eos_token); empty if there is none. Unimplemented naming another model
// type, a precompiled_charsmap or another option; InvalidArgument for a damaged file, naming the
// byte.
absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerFromSentencePiece(std::string_view model,
                                                                      std::string_view config_json);

class GgufFile;
// The tokenizer inside a GGUF file. Unimplemented naming an unknown tokenizer.ggml.model or
// tokenizer.ggml.pre; InvalidArgument naming a key that is missing or damaged.
absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerFromGguf(const GgufFile& file);

// The ids of a whole text; convenience for tests and the command line.
std::string Decode(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                   bool skip_special_tokens);

}  // namespace thresher
