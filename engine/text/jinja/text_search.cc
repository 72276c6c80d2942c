#include "engine/text/jinja/text_search.h"

#include <algorithm>

#include "engine/text/jinja/error.h"
#include "engine/text/jinja/python_text.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher::jinja {
namespace {

using Pieces = std::vector<std::string_view>;

// Start offsets of the parts that do not overlap, from the left.
std::vector<std::size_t> Occurrences(std::string_view text, std::string_view part,
                                     std::int64_t max) {
  std::vector<std::size_t> found;
  for (std::size_t at = FindText(text, part, 0);
       at != std::string_view::npos && (max < 0 || static_cast<std::int64_t>(found.size()) < max);
       at = FindText(text, part, at + part.size())) {
    found.push_back(at);
  }
  return found;
}

// As Occurrences, but from the right; ascending.
std::vector<std::size_t> OccurrencesFromRight(std::string_view text, std::string_view part,
                                              std::int64_t max) {
  std::string reversed_text(text.rbegin(), text.rend());
  std::string reversed_part(part.rbegin(), part.rend());
  std::vector<std::size_t> found = Occurrences(reversed_text, reversed_part, max);
  for (std::size_t& at : found) at = text.size() - at - part.size();
  std::reverse(found.begin(), found.end());
  return found;
}

Pieces SplitAt(std::string_view text, const std::vector<std::size_t>& places, std::size_t width) {
  Pieces pieces;
  std::size_t start = 0;
  for (std::size_t place : places) {
    pieces.push_back(text.substr(start, place - start));
    start = place + width;
  }
  pieces.push_back(text.substr(start));
  return pieces;
}

Pieces SplitSpaces(std::string_view text, std::int64_t max_splits) {
  Pieces pieces;
  std::string_view rest = StripLeft(text, std::nullopt);
  while (!rest.empty()) {
    if (max_splits >= 0 && static_cast<std::int64_t>(pieces.size()) == max_splits) {
      pieces.push_back(rest);
      break;
    }
    std::size_t end = 0;
    while (end < rest.size()) {
      std::size_t next = end;
      if (IsSpace(NextCodePoint(rest, next))) break;
      end = next;
    }
    pieces.push_back(rest.substr(0, end));
    rest = StripLeft(rest.substr(end), std::nullopt);
  }
  return pieces;
}

Pieces SplitSpacesFromRight(std::string_view text, std::int64_t max_splits) {
  Pieces pieces;
  std::string_view rest = StripRight(text, std::nullopt);
  while (!rest.empty()) {
    if (max_splits >= 0 && static_cast<std::int64_t>(pieces.size()) == max_splits) {
      pieces.push_back(rest);
      break;
    }
    std::size_t start = rest.size();
    while (start > 0) {
      std::size_t previous = start - 1;
      while (previous > 0 && (static_cast<unsigned char>(rest[previous]) & 0xc0) == 0x80)
        --previous;
      std::size_t position = previous;
      if (IsSpace(NextCodePoint(rest, position))) break;
      start = previous;
    }
    pieces.push_back(rest.substr(start));
    rest = StripRight(rest.substr(0, start), std::nullopt);
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

}  // namespace

absl::StatusOr<std::string> ReplaceText(Budget& budget, std::string_view text, std::string_view old,
                                        std::string_view with, std::int64_t count) {
  JINJA_RETURN_IF_ERROR(budget.Text(static_cast<std::int64_t>(text.size())));
  std::vector<std::size_t> places;
  if (old.empty()) {
    // Between all characters, and at both ends.
    for (std::size_t at = 0; count < 0 || static_cast<std::int64_t>(places.size()) < count;) {
      places.push_back(at);
      if (at >= text.size()) break;
      NextCodePoint(text, at);
    }
  } else {
    places = Occurrences(text, old, count);
  }
  JINJA_RETURN_IF_ERROR(budget.Step(static_cast<std::int64_t>(places.size())));
  // Below 2^54: neither factor passes the limit of one text.
  JINJA_RETURN_IF_ERROR(
      budget.Text(static_cast<std::int64_t>(text.size() + places.size() * with.size())));
  std::string out;
  std::size_t start = 0;
  for (std::size_t place : places) {
    out += text.substr(start, place - start);
    out += with;
    start = place + old.size();
  }
  out += text.substr(start);
  return out;
}

absl::StatusOr<std::vector<Value>> SplitText(Budget& budget, std::string_view text,
                                             const std::string* separator, std::int64_t max_splits,
                                             bool from_right) {
  JINJA_RETURN_IF_ERROR(budget.Text(static_cast<std::int64_t>(text.size())));
  Pieces pieces;
  if (separator == nullptr) {
    pieces = from_right ? SplitSpacesFromRight(text, max_splits) : SplitSpaces(text, max_splits);
  } else if (separator->empty()) {
    return Failure("empty separator");
  } else {
    auto places = from_right ? OccurrencesFromRight(text, *separator, max_splits)
                             : Occurrences(text, *separator, max_splits);
    pieces = SplitAt(text, places, separator->size());
  }
  JINJA_RETURN_IF_ERROR(budget.Step(static_cast<std::int64_t>(pieces.size())));
  std::vector<Value> values;
  values.reserve(pieces.size());
  for (std::string_view piece : pieces) values.push_back(Value::String(std::string(piece)));
  return values;
}

}  // namespace thresher::jinja
