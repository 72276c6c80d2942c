// Byte-pair encoding of one piece of text by ranked merges (Sennrich et al., 2016).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/text/merge_symbols.h"
#include "engine/text/vocabulary.h"
#include "engine/text/word_cache.h"

namespace thresher {

struct BpeOptions {
  bool byte_level = true;      // token texts are written in the ByteAlphabet, pieces are bytes
  bool byte_fallback = false;  // an unknown code point becomes its "<0xE2>" tokens
  bool fuse_unknown = false;   // neighbouring unknown code points become one unknown token
  bool ignore_merges = false;  // a piece that is a token is that token, whatever the merges say
  std::optional<TokenId> unknown = {};  // absent: an unknown code point or byte has no token at all
};

// Immutable but for its cache; any thread.
class BpeModel final {
 public:
  // The texts of a merge's two sides, best first.
  using Merges = std::vector<std::pair<std::string_view, std::string_view>>;

  // `vocabulary` holds the model's own tokens, is read here only, and need not outlive this.
  // InvalidArgument naming the merge whose sides or result are not in the vocabulary.
  static absl::StatusOr<std::unique_ptr<BpeModel>> Create(const Vocabulary& vocabulary,
                                                          const Merges& merges,
                                                          const BpeOptions& options);
  // Appends the ids of a piece of valid UTF-8, not empty, shorter than 2 GiB. Cost: O(n log n).
  void Encode(std::string_view piece, MergeScratch& scratch, std::vector<TokenId>& ids) const;

 private:
  struct Merge {
    std::uint32_t rank;
    TokenId merged;
  };
  struct Rule;

  explicit BpeModel(const BpeOptions& options) : options_(options) { bytes_.fill(-1); }
  void AddBytes(std::string_view piece, MergeScratch& scratch) const;
  void AddCodePoints(std::string_view piece, MergeScratch& scratch) const;
  bool HasFallback(std::string_view code_point) const;

  BpeOptions options_;
  absl::flat_hash_map<std::uint64_t, Merge> merges_;  // by left id << 32 | right id
  std::array<TokenId, 256> bytes_;                    // byte_level: a byte's token; -1: none
  std::array<TokenId, 256> fallback_;                 // byte_fallback: "<0x00>" to "<0xFF>"
  TextMap<TokenId> code_points_;                      // not byte_level: tokens of one code point
  TextMap<TokenId> whole_pieces_;                     // ignore_merges: every token by its bytes
  mutable WordCache cache_;
};

}  // namespace thresher
