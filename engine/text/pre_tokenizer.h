// Steps that cut normalized text into the pieces a model encodes one by one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/text/split_pattern.h"

namespace thresher {

// Pieces of one text, in order, none empty.
struct PieceList {
  // `whole` outlives it, or until a step rewrites the text. `at_text_start`: nothing of the text
  // that the caller gave comes before.
  explicit PieceList(std::string_view whole, bool at_text_start);
  std::string_view Piece(const TextRange& range) const {
    return text.substr(range.begin, range.end - range.begin);
  }

  std::string_view text;  // of the caller, or `rewritten`
  std::string rewritten;
  std::vector<TextRange> ranges;
  bool at_text_start;
};

// Immutable; any thread.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // InvalidArgument if the text is too hard for a pattern.
  virtual absl::Status Apply(PieceList& pieces) const = 0;
};

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// Cuts every piece where the pattern matches, or, inverted, where it does not.
std::unique_ptr<PreTokenizer> MakeSplit(std::unique_ptr<SplitPattern> pattern,
                                        SplitBehavior behavior, bool invert);

// Puts a space before every piece that has none (ByteLevel's add_prefix_space).
std::unique_ptr<PreTokenizer> MakePrefixSpace();

enum class PrependScheme { kNever, kFirst, kAlways };

// Writes `replacement` for every space, puts it before every piece (kAlways) or the text's first
// (kFirst) that does not begin with it, and, if `split`, cuts before each.
std::unique_ptr<PreTokenizer> MakeMetaspace(std::string replacement, PrependScheme scheme,
                                            bool split);

}  // namespace thresher
