// Token texts and their ids, both ways.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "scheduler/ids.h"

namespace thresher {

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};

template <typename Value>
using TextMap = absl::flat_hash_map<std::string, Value, TextHash, std::equal_to<>>;

// Ids may have holes. Not changed after loading, then any thread.
class Vocabulary final {
 public:
  static constexpr int kMaxSize = 1 << 22;

  // InvalidArgument: the id is negative or not below kMaxSize, or the id or the text is taken.
  absl::Status Add(std::string_view text, TokenId id);
  // An id with a text by which nobody finds it.
  absl::Status AddHidden(std::string_view text, TokenId id);

  std::optional<TokenId> Find(std::string_view text) const;
  bool Has(TokenId id) const { return InRange(id) && present_[id]; }
  // Empty for an id that no token has.
  std::string_view Text(TokenId id) const {
    return InRange(id) ? std::string_view(texts_[id]) : std::string_view();
  }
  int size() const { return static_cast<int>(texts_.size()); }  // the largest id + 1

 private:
  bool InRange(TokenId id) const { return id >= 0 && id < size(); }

  std::vector<std::string> texts_;
  std::vector<bool> present_;
  TextMap<TokenId> ids_;
};

}  // namespace thresher
