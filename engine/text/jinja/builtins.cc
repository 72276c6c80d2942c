#include "engine/text/jinja/builtins.h"

#include <algorithm>
#include <cstdlib>

namespace thresher::jinja {
namespace {

template <typename Row>
const Row* FindRow(absl::Span<const Row> rows, std::string_view name) {
  auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace

const FilterRow* FindFilter(std::string_view name) {
  for (absl::Span<const FilterRow> rows :
       {TextFilters(), NumberFilters(), SequenceFilters(), SelectionFilters(), JsonFilters()}) {
    if (const FilterRow* row = FindRow(rows, name); row != nullptr) return row;
  }
  return nullptr;
}

const TestRow* FindTest(std::string_view name) { return FindRow(Tests(), name); }

const Function* FindFunction(std::string_view name) { return FindRow(Functions(), name); }

bool IsMissingFunction(std::string_view name) {
  constexpr std::string_view kMissing[] = {"cycler", "joiner", "lipsum", "super", "self"};
  return std::find(std::begin(kMissing), std::end(kMissing), name) != std::end(kMissing);
}

}  // namespace thresher::jinja
