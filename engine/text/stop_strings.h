// Finds stop strings in streamed text, across token borders, holding back what may begin one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace thresher {

// One thread at a time. Cost: linear in the text, whatever the stop strings (Aho and Corasick,
// 1975); memory linear in their total length.
class StopStringMatcher final {
 public:
  // No stop string is empty. UTF-8, so that what is held back is whole code points.
  StopStringMatcher(std::vector<std::string> stops, bool include_in_output);
  // Takes new text, appends to `out` what can be shown: all but the longest end of the text that
  // begins a stop string. Returns the index of the stop string that ended the text: the first to be
  // complete; the longest if several end together; the lowest index of equal ones. `out` then ends
  // before it, or after it with include_in_output. Takes nothing after that. How the text is cut
  // into calls changes nothing.
  std::optional<int> Append(std::string_view text, std::string& out);
  // The sequence ended for another reason: shows what was held back.
  void Finish(std::string& out);

 private:
  struct Node {
    std::vector<std::pair<char, int>> children;
    int failure = 0;  // the node of the longest proper suffix that is in the trie
    int depth = 0;
    int stop_index = -1;  // the longest stop string that ends here, itself or by a suffix
    int stop_length = 0;
  };

  void AddStop(const std::string& stop, int index);
  void LinkFailures();
  int Child(int node, char byte) const;
  int Advance(int node, char byte) const;

  std::vector<Node> nodes_;  // nodes_[0] is the root
  bool include_in_output_;
  int node_ = 0;
  std::string held_;
  std::size_t held_begin_ = 0;  // what precedes it in held_ is shown already
  bool ended_ = false;
};

}  // namespace thresher
