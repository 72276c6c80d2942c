// A set of strings in which to find the longest that begins at a place of a text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace thresher {

// Not changed after loading, then any thread.
class ByteTrie final {
 public:
  struct Match {
    int value = -1;  // -1: no string begins there
    std::size_t end = 0;
  };

  ByteTrie();
  // `value` is not negative. Of equal strings the first one's value counts; an empty one is never
  // found.
  void Insert(std::string_view string, int value);
  // Cost: at most the length of the longest string; one step where no string begins.
  Match LongestAt(std::string_view text, std::size_t begin) const;

 private:
  struct Node {
    std::vector<std::pair<unsigned char, std::int32_t>> children;  // by byte, ascending
    int value = -1;
  };

  std::int32_t Child(std::int32_t node, unsigned char byte) const;

  std::vector<Node> nodes_;              // nodes_[0] is the root
  std::array<std::int32_t, 256> first_;  // the root's children; 0: none
};

}  // namespace thresher
