// Python's slices of strings, lists, tuples and ranges.
#include <algorithm>
#include <optional>

#include "engine/text/jinja/error.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/python_text.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher::jinja {
namespace {

struct Bounds {
  std::int64_t start;
  std::int64_t stop;
  std::int64_t step;
  std::int64_t count;
};

absl::StatusOr<std::optional<std::int64_t>> Part(const Value& value) {
  if (value.is_none()) return std::nullopt;
  if (value.is_integral()) return value.integer();
  return Failure("slice indices must be integers or None");
}

// CPython's PySlice_AdjustIndices.
absl::StatusOr<Bounds> Adjust(const Value& start_value, const Value& stop_value,
                              const Value& step_value, std::int64_t length) {
  JINJA_ASSIGN_OR_RETURN(auto start, Part(start_value));
  JINJA_ASSIGN_OR_RETURN(auto stop, Part(stop_value));
  JINJA_ASSIGN_OR_RETURN(auto step, Part(step_value));
  // Larger steps select the same one item, and their negation would overflow.
  const std::int64_t stride = std::clamp<std::int64_t>(step.value_or(1), -length - 1, length + 1);
  if (step.has_value() && *step == 0) return Failure("slice step cannot be zero");
  const bool back = stride < 0;
  auto clip = [&](std::optional<std::int64_t> index, std::int64_t fallback) {
    if (!index) return fallback;
    std::int64_t value = *index;
    if (value < 0) return std::max<std::int64_t>(value + length, back ? -1 : 0);
    return std::min(value, back ? length - 1 : length);
  };
  std::int64_t first = clip(start, back ? length - 1 : 0);
  std::int64_t last = clip(stop, back ? -1 : length);
  std::int64_t span = back ? first - last : last - first;
  std::int64_t width = back ? -stride : stride;
  return Bounds{first, last, stride, span > 0 ? (span - 1) / width + 1 : 0};
}

}  // namespace

absl::StatusOr<Value> Slice(Budget& budget, const Value& object, const Value& start,
                            const Value& stop, const Value& step) {
  if (object.is_string()) {
    const std::string& text = object.text();
    JINJA_RETURN_IF_ERROR(budget.Text(static_cast<std::int64_t>(text.size())));
    JINJA_ASSIGN_OR_RETURN(Bounds bounds, Adjust(start, stop, step, Length(text)));
    if (bounds.step == 1) {
      std::size_t first = Offset(text, bounds.start);
      std::size_t size = Offset(std::string_view(text).substr(first), bounds.count);
      return Value::String(text.substr(first, size), object.safe());
    }
    const std::vector<char32_t> codes = CodePoints(text);
    std::string out;
    for (std::int64_t i = 0; i < bounds.count; ++i) {
      AppendCodePoint(codes[bounds.start + i * bounds.step], out);
    }
    return Value::String(std::move(out), object.safe());
  }
  if (object.is_undefined()) {
    return Failure(object.why().empty() ? "an undefined value is used" : object.why());
  }
  bool sliced = object.is_sequence() && (object.sequence().kind == SequenceKind::kList ||
                                         object.sequence().kind == SequenceKind::kTuple ||
                                         object.sequence().kind == SequenceKind::kRange);
  // Jinja gives Undefined where Python raises a TypeError.
  if (!sliced) return Value::Undefined("'" + TypeName(object) + "' object cannot be sliced");
  const Sequence& sequence = object.sequence();
  JINJA_ASSIGN_OR_RETURN(
      Bounds bounds, Adjust(start, stop, step, static_cast<std::int64_t>(sequence.items.size())));
  JINJA_RETURN_IF_ERROR(budget.Step(bounds.count));
  std::vector<Value> items;
  items.reserve(bounds.count);
  for (std::int64_t i = 0; i < bounds.count; ++i) {
    items.push_back(sequence.items[bounds.start + i * bounds.step]);
  }
  if (sequence.kind != SequenceKind::kRange) return MakeSequence(sequence.kind, std::move(items));
  // A range's slice is a range. Indices are at most a range's length, so what overflows is past
  // every item, and is kept from being undefined.
  auto at = [&](std::int64_t index) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(sequence.range.start) +
                                     static_cast<std::uint64_t>(index) *
                                         static_cast<std::uint64_t>(sequence.range.step));
  };
  auto step_of = static_cast<std::int64_t>(static_cast<std::uint64_t>(sequence.range.step) *
                                           static_cast<std::uint64_t>(bounds.step));
  RangeBounds range{at(bounds.start), at(bounds.stop), step_of};
  return MakeRange(range, std::move(items));
}

}  // namespace thresher::jinja
