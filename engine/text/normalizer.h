// Steps that rewrite text before it is cut into pieces.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "engine/text/split_pattern.h"

namespace thresher {

// Immutable; any thread.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // `text` is valid UTF-8 and stays so. InvalidArgument if it is too hard for a pattern or would
  // grow beyond 1 GiB.
  virtual absl::Status Apply(std::string& text) const = 0;
};

// Unicode normalization form C. Cost: O(n log n), whatever the text.
std::unique_ptr<Normalizer> MakeNfc();
// Puts `prefix` before a text that is not empty.
std::unique_ptr<Normalizer> MakePrepend(std::string prefix);
// Writes `replacement` for every match.
std::unique_ptr<Normalizer> MakeReplace(std::unique_ptr<SplitPattern> pattern,
                                        std::string replacement);

}  // namespace thresher
