// Behaviours follow Hugging Face's tokenizers: what is a match and what lies between.
#include "engine/text/pre_tokenizer.h"

#include <algorithm>
#include <utility>

namespace thresher {
namespace {

struct Part {
  TextRange range;
  bool is_match;
};

// Calls `add(range, is_match)` for the matches and the gaps of the piece that begins at `begin`. A
// match may be empty, a gap not.
template <typename Add>
absl::Status FindParts(std::string_view piece, std::size_t begin, bool invert,
                       SplitPattern::Scanner& scanner, Add add) {
  scanner.Start(piece);
  std::size_t done = 0;
  while (true) {
    const absl::StatusOr<std::optional<TextRange>> match = scanner.Next();
    if (!match.ok()) return match.status();
    if (!match->has_value()) break;
    const TextRange range = **match;
    if (range.begin > done) add(TextRange{begin + done, begin + range.begin}, invert);
    add(TextRange{begin + range.begin, begin + range.end}, !invert);
    done = range.end;
  }
  if (done < piece.size()) add(TextRange{begin + done, begin + piece.size()}, invert);
  return absl::OkStatus();
}

// Joins each part with the one before it if `joins` says so of the two.
template <typename Joins>
void AppendJoined(const std::vector<Part>& parts, std::vector<TextRange>& ranges, Joins joins) {
  const std::size_t first = ranges.size();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0 && ranges.size() > first && joins(parts[i - 1], parts[i])) {
      ranges.back().end = parts[i].range.end;
    } else {
      ranges.push_back(parts[i].range);
    }
  }
}

void AppendPieces(const std::vector<Part>& parts, SplitBehavior behavior,
                  std::vector<TextRange>& ranges) {
  switch (behavior) {
    case SplitBehavior::kRemoved:
      for (const Part& part : parts) {
        if (!part.is_match) ranges.push_back(part.range);
      }
      return;
    case SplitBehavior::kIsolated:  // done as parts are found
      return;
    case SplitBehavior::kMergedWithPrevious:
      return AppendJoined(parts, ranges, [](const Part& previous, const Part& part) {
        return part.is_match && !previous.is_match;
      });
    case SplitBehavior::kMergedWithNext:
      return AppendJoined(parts, ranges, [](const Part& previous, const Part& part) {
        return previous.is_match && !part.is_match;
      });
    case SplitBehavior::kContiguous:
      return AppendJoined(parts, ranges, [](const Part& previous, const Part& part) {
        return previous.is_match == part.is_match;
      });
  }
}

class Split final : public PreTokenizer {
 public:
  Split(std::unique_ptr<SplitPattern> pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  absl::Status Apply(PieceList& pieces) const override {
    const std::unique_ptr<SplitPattern::Scanner> scanner = pattern_->NewScanner();
    std::vector<TextRange> ranges;
    ranges.reserve(pieces.text.size() / 4 + 1);
    std::vector<Part> parts;
    for (const TextRange& range : pieces.ranges) {
      parts.clear();
      const auto add = [&](const TextRange& part, bool is_match) {
        // The common behaviour needs no look at the neighbours.
        if (behavior_ != SplitBehavior::kIsolated) {
          parts.push_back({part, is_match});
        } else if (part.begin < part.end) {
          ranges.push_back(part);
        }
      };
      absl::Status status = FindParts(pieces.Piece(range), range.begin, invert_, *scanner, add);
      if (!status.ok()) return status;
      AppendPieces(parts, behavior_, ranges);
    }
    if (behavior_ != SplitBehavior::kIsolated) {
      std::erase_if(ranges, [](const TextRange& range) { return range.begin == range.end; });
    }
    pieces.ranges = std::move(ranges);
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<SplitPattern> pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class PrefixSpace final : public PreTokenizer {
 public:
  absl::Status Apply(PieceList& pieces) const override {
    std::string text;
    text.reserve(pieces.text.size() + pieces.ranges.size());
    for (TextRange& range : pieces.ranges) {
      const std::string_view piece = pieces.Piece(range);
      range.begin = text.size();
      if (!piece.starts_with(' ')) text.push_back(' ');
      text.append(piece);
      range.end = text.size();
    }
    pieces.rewritten = std::move(text);
    pieces.text = pieces.rewritten;
    return absl::OkStatus();
  }
};

class Metaspace final : public PreTokenizer {
 public:
  Metaspace(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)), scheme_(scheme), split_(split) {}

  absl::Status Apply(PieceList& pieces) const override {
    std::string text;
    std::vector<TextRange> ranges;
    for (std::size_t i = 0; i < pieces.ranges.size(); ++i) {
      const std::string_view piece = pieces.Piece(pieces.ranges[i]);
      const std::size_t begin = text.size();
      const bool may_prepend = scheme_ == PrependScheme::kAlways ||
                               (scheme_ == PrependScheme::kFirst && i == 0 && pieces.at_text_start);
      if (may_prepend && !piece.starts_with(' ') && !piece.starts_with(replacement_)) {
        text.append(replacement_);
      }
      for (const char byte : piece) {
        byte == ' ' ? text.append(replacement_) : text.append(1, byte);
      }
      AppendRanges(text, begin, ranges);
    }
    pieces.rewritten = std::move(text);
    pieces.text = pieces.rewritten;
    pieces.ranges = std::move(ranges);
    return absl::OkStatus();
  }

 private:
  void AppendRanges(std::string_view text, std::size_t begin,
                    std::vector<TextRange>& ranges) const {
    while (split_) {
      const std::size_t cut = text.find(replacement_, begin + 1);
      if (cut == std::string_view::npos) break;
      ranges.push_back({begin, cut});
      begin = cut;
    }
    ranges.push_back({begin, text.size()});
  }

  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
};

}  // namespace

PieceList::PieceList(std::string_view whole, bool at_text_start)
    : text(whole), at_text_start(at_text_start) {
  if (!text.empty()) ranges.push_back({0, text.size()});
}

std::unique_ptr<PreTokenizer> MakeSplit(std::unique_ptr<SplitPattern> pattern,
                                        SplitBehavior behavior, bool invert) {
  return std::make_unique<Split>(std::move(pattern), behavior, invert);
}

std::unique_ptr<PreTokenizer> MakePrefixSpace() { return std::make_unique<PrefixSpace>(); }

std::unique_ptr<PreTokenizer> MakeMetaspace(std::string replacement, PrependScheme scheme,
                                            bool split) {
  return std::make_unique<Metaspace>(std::move(replacement), scheme, split);
}

}  // namespace thresher
