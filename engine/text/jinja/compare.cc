// Python's bool(), == and < over values.
#include <cmath>

#include "engine/text/jinja/error.h"
#include "engine/text/jinja/status_macros.h"
#include "engine/text/jinja/value.h"

namespace thresher::jinja {
namespace {

// -1, 0 or 1; 2 if a NaN makes them unordered. A long double holds every int64.
int CompareNumbers(const Value& left, const Value& right) {
  if (left.is(Kind::kBigInteger) && right.is(Kind::kBigInteger)) {
    const std::string& a = left.digits();
    const std::string& b = right.digits();
    if (a == b) return 0;
    bool negative = a[0] == '-';
    if (negative != (b[0] == '-')) return negative ? -1 : 1;
    bool smaller = a.size() != b.size() ? a.size() < b.size() : a < b;
    return smaller != negative ? -1 : 1;
  }
  auto wide = [](const Value& value) {
    return value.is_integral() ? static_cast<long double>(value.integer())
                               : static_cast<long double>(value.number());
  };
  long double a = wide(left);
  long double b = wide(right);
  if (std::isnan(a) || std::isnan(b)) return 2;
  return a < b ? -1 : (a > b ? 1 : 0);
}

bool EqualSequences(const Sequence& left, const Sequence& right) {
  if (&left == &right) return true;
  if (left.kind != right.kind || left.items.size() != right.items.size()) return false;
  // Iterators and dict_values are equal only to themselves.
  if (left.kind == SequenceKind::kIterator || left.kind == SequenceKind::kValues) return false;
  for (std::size_t i = 0; i < left.items.size(); ++i) {
    if (!Equal(left.items[i], right.items[i])) return false;
  }
  return true;
}

bool EqualDicts(const Dict& left, const Dict& right) {
  if (left.size() != right.size()) return false;
  for (const auto& [key, value] : left.entries()) {
    const Value* other = right.Find(key);
    if (other == nullptr || !Equal(value, *other)) return false;
  }
  return true;
}

}  // namespace

bool Truth(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInteger:
      return value.integer() != 0;
    case Kind::kFloat:
      return value.number() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kDict:
      return value.dict().size() != 0;
    case Kind::kSequence:
      return value.sequence().kind == SequenceKind::kIterator || !value.sequence().items.empty();
    default:
      return true;
  }
}

bool Equal(const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) return CompareNumbers(left, right) == 0;
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return left.text() == right.text();
    case Kind::kSequence:
      return EqualSequences(left.sequence(), right.sequence());
    case Kind::kDict:
      return EqualDicts(left.dict(), right.dict());
    case Kind::kMethod:
      return left.method().name == right.method().name &&
             Equal(left.method().self, right.method().self);
    default:
      return left.Same(right);
  }
}

absl::StatusOr<bool> Less(const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) return CompareNumbers(left, right) == -1;
  // Bytes of UTF-8 order as code points do.
  if (left.is_string() && right.is_string()) return left.text() < right.text();
  if (left.is_sequence() && right.is_sequence()) {
    const Sequence& a = left.sequence();
    const Sequence& b = right.sequence();
    bool ordered = a.kind == SequenceKind::kList || a.kind == SequenceKind::kTuple;
    if (ordered && a.kind == b.kind) {
      for (std::size_t i = 0; i < a.items.size() && i < b.items.size(); ++i) {
        if (!Equal(a.items[i], b.items[i])) return Less(a.items[i], b.items[i]);
      }
      return a.items.size() < b.items.size();
    }
  }
  for (const Value* side : {&left, &right}) {
    if (side->is_undefined() && !side->why().empty()) return Failure(side->why());
  }
  return Failure("'<' not supported between '", TypeName(left), "' and '", TypeName(right), "'");
}

}  // namespace thresher::jinja
