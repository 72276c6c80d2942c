// The root is a table, since nearly every search ends there; below it children are few.
#include "engine/text/byte_trie.h"

#include <algorithm>

namespace thresher {

ByteTrie::ByteTrie() : nodes_(1) { first_.fill(0); }

void ByteTrie::Insert(std::string_view string, int value) {
  std::int32_t node = 0;
  for (const char c : string) {
    const auto byte = static_cast<unsigned char>(c);
    std::int32_t child = Child(node, byte);
    if (child == 0) {
      child = static_cast<std::int32_t>(nodes_.size());
      nodes_.emplace_back();
      auto& children = nodes_[node].children;
      const std::pair<unsigned char, std::int32_t> edge(byte, child);
      children.insert(std::upper_bound(children.begin(), children.end(), edge), edge);
      if (node == 0) first_[byte] = child;
    }
    node = child;
  }
  if (node != 0 && nodes_[node].value < 0) nodes_[node].value = value;
}

std::int32_t ByteTrie::Child(std::int32_t node, unsigned char byte) const {
  if (node == 0) return first_[byte];
  const auto& children = nodes_[node].children;
  const auto found =
      std::lower_bound(children.begin(), children.end(), std::make_pair(byte, std::int32_t{0}));
  return found != children.end() && found->first == byte ? found->second : 0;
}

ByteTrie::Match ByteTrie::LongestAt(std::string_view text, std::size_t begin) const {
  Match match;
  std::int32_t node = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    node = Child(node, static_cast<unsigned char>(text[i]));
    if (node == 0) break;
    if (nodes_[node].value >= 0) match = {nodes_[node].value, i + 1};
  }
  return match;
}

}  // namespace thresher
