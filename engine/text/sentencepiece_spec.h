// What a SentencePiece model of type BPE says, read from its file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/text/token_type.h"
#include "scheduler/ids.h"

namespace thresher {

struct SentencePiece {
  std::string text;  // U+2581 for a space
  float score = 0;   // higher merges first
  TokenType type = TokenType::kNormal;
};

struct SentencePieceSpec {
  std::vector<SentencePiece> pieces;  // by id
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool byte_fallback = false;
  std::optional<TokenId> bos, eos;
  std::vector<TokenId> prefix, suffix;  // what add_special_tokens puts around a text; not in files
};

// The protocol buffer of a .model file. Unimplemented naming a model type other than BPE or an
// option that is not known; InvalidArgument naming the byte where the file is damaged.
absl::StatusOr<SentencePieceSpec> ParseSentencePieceModel(std::string_view bytes);

}  // namespace thresher
