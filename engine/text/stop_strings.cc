// A trie of the stop strings with failure links. The depth of the node reached is exactly how much
// text must be held back.
#include "engine/text/stop_strings.h"

#include <algorithm>
#include <utility>

namespace thresher {

StopStringMatcher::StopStringMatcher(std::vector<std::string> stops, bool include_in_output)
    : nodes_(1), include_in_output_(include_in_output) {
  for (std::size_t i = 0; i < stops.size(); ++i) AddStop(stops[i], static_cast<int>(i));
  LinkFailures();
}

void StopStringMatcher::AddStop(const std::string& stop, int index) {
  int node = 0;
  for (const char byte : stop) {
    int child = Child(node, byte);
    if (child < 0) {
      child = static_cast<int>(nodes_.size());
      nodes_.emplace_back();
      nodes_[child].depth = nodes_[node].depth + 1;
      nodes_[node].children.emplace_back(byte, child);
    }
    node = child;
  }
  if (node != 0 && nodes_[node].stop_index < 0) {
    nodes_[node].stop_index = index;
    nodes_[node].stop_length = nodes_[node].depth;
  }
}

void StopStringMatcher::LinkFailures() {
  std::vector<int> breadth_first = {0};
  for (std::size_t i = 0; i < breadth_first.size(); ++i) {
    const int parent = breadth_first[i];
    for (const auto& [byte, child] : nodes_[parent].children) {
      Node& node = nodes_[child];
      node.failure = parent == 0 ? 0 : Advance(nodes_[parent].failure, byte);
      // The node's own stop string is longer than any that ends here by a suffix.
      if (node.stop_index < 0) {
        node.stop_index = nodes_[node.failure].stop_index;
        node.stop_length = nodes_[node.failure].stop_length;
      }
      breadth_first.push_back(child);
    }
  }
}

int StopStringMatcher::Child(int node, char byte) const {
  for (const auto& [edge, child] : nodes_[node].children) {
    if (edge == byte) return child;
  }
  return -1;
}

int StopStringMatcher::Advance(int node, char byte) const {
  while (true) {
    const int child = Child(node, byte);
    if (child >= 0) return child;
    if (node == 0) return 0;
    node = nodes_[node].failure;
  }
}

std::optional<int> StopStringMatcher::Append(std::string_view text, std::string& out) {
  if (ended_) return std::nullopt;
  const std::size_t old_size = held_.size();
  held_.append(text);
  for (std::size_t i = 0; i < text.size(); ++i) {
    node_ = Advance(node_, text[i]);
    if (nodes_[node_].stop_index < 0) continue;
    const std::size_t end = old_size + i + 1;
    const std::size_t shown_end = include_in_output_ ? end : end - nodes_[node_].stop_length;
    out.append(held_, held_begin_, shown_end - held_begin_);
    held_.clear();
    held_begin_ = 0;
    ended_ = true;
    return nodes_[node_].stop_index;
  }
  const std::size_t settled_end = held_.size() - nodes_[node_].depth;
  out.append(held_, held_begin_, settled_end - held_begin_);
  held_begin_ = settled_end;
  // Moving the rest to the front only when at least as much goes keeps the total linear.
  if (held_begin_ * 2 >= held_.size()) {
    held_.erase(0, held_begin_);
    held_begin_ = 0;
  }
  return std::nullopt;
}

void StopStringMatcher::Finish(std::string& out) {
  out.append(held_, held_begin_, std::string::npos);
  held_.clear();
  held_begin_ = 0;
  node_ = 0;
  ended_ = true;
}

}  // namespace thresher
