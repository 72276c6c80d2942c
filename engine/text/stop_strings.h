// Finds stop strings in streamed text, across token borders, holding back what may begin one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace thresher {

class StopStringMatcher final {
 public:
  // No stop string is empty.
  StopStringMatcher(std::vector<std::string> stops, bool include_in_output);
  // Takes new text, appends to `out` what can be shown. Returns the index of the stop string that
  // ended the text: the one that begins first, the longest of those; `out` then ends before it, or
  // after it with include_in_output. Takes nothing after that.
  std::optional<int> Append(std::string_view text, std::string& out);
  // The sequence ended for another reason: shows what was held back.
  void Finish(std::string& out);

 private:
  std::vector<std::string> stops_;
  bool include_in_output_;
  std::string held_;
  bool ended_ = false;
};

}  // namespace thresher
