#include "engine/text/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "engine/text/jinja/error.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher::jinja {
namespace {

// Below this many keys a scan beats a hash table.
constexpr std::size_t kLargeDict = 16;

bool IsHashable(const Value& value) {
  switch (value.kind()) {
    case Kind::kDict:
      return false;
    case Kind::kSequence: {
      const Sequence& sequence = value.sequence();
      if (sequence.kind != SequenceKind::kTuple) return sequence.kind != SequenceKind::kList;
      return std::all_of(sequence.items.begin(), sequence.items.end(), IsHashable);
    }
    default:
      return true;
  }
}

// The extent of a container after one more part.
Extent Add(Extent whole, const Extent& part) {
  return {std::max(whole.depth, part.depth + 1), whole.atoms + part.atoms};
}

absl::Status CheckExtent(const Extent& extent) {
  if (extent.depth > kMaxValueDepth) {
    return Failure("a value is nested more than ", kMaxValueDepth, " deep");
  }
  if (extent.atoms > kMaxValueAtoms) {
    return Failure("a value has more than ", kMaxValueAtoms, " parts");
  }
  return absl::OkStatus();
}

}  // namespace

Value Value::Undefined(std::string why) {
  return Value(UndefinedValue{std::make_shared<const std::string>(std::move(why))});
}

Value Value::Big(std::string digits) {
  return Value(BigInteger{std::make_shared<const std::string>(std::move(digits))});
}

Value Value::String(std::string text, bool safe) {
  return Value(StringValue{std::make_shared<const std::string>(std::move(text)), safe});
}

bool Value::is_number() const { return is_integral() || is(Kind::kFloat) || is(Kind::kBigInteger); }

const std::string& Value::why() const {
  static const std::string& none = *new std::string();
  const Text& why = std::get<UndefinedValue>(held_).why;
  return why == nullptr ? none : *why;
}

std::int64_t Value::integer() const {
  return is(Kind::kBool) ? std::int64_t{boolean()} : std::get<std::int64_t>(held_);
}

double Value::number() const {
  if (is(Kind::kFloat)) return std::get<double>(held_);
  if (is(Kind::kBigInteger)) return std::strtod(digits().c_str(), nullptr);
  return static_cast<double>(integer());
}

const std::shared_ptr<const MacroObject>& Value::macro() const {
  return std::get<std::shared_ptr<const MacroObject>>(held_);
}

Extent Value::extent() const {
  switch (kind()) {
    case Kind::kSequence:
      return sequence().extent;
    case Kind::kDict:
      return dict().extent();
    case Kind::kLoop:
      return Add(Extent{1, 1}, loop().items->extent);
    case Kind::kMethod:
      return Add(Extent{1, 1}, method().self.extent());
    case Kind::kString:
      return Extent{0, 1 + static_cast<std::int64_t>(text().size() / kBytesPerAtom)};
    default:
      return Extent{};
  }
}

bool Value::Same(const Value& other) const {
  if (kind() != other.kind()) return false;
  switch (kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kSequence:
      return &sequence() == &other.sequence();
    case Kind::kDict:
      return &dict() == &other.dict();
    case Kind::kNamespace:
      return &space() == &other.space();
    case Kind::kLoop:
      return &loop() == &other.loop();
    case Kind::kMacro:
      return macro() == other.macro();
    case Kind::kMethod:
      return &method() == &other.method();
    case Kind::kFunction:
      return &function() == &other.function();
    default:
      return Equal(*this, other);
  }
}

absl::StatusOr<Value> MakeSequence(SequenceKind kind, std::vector<Value> items) {
  auto sequence = std::make_shared<Sequence>();
  sequence->kind = kind;
  sequence->extent = Extent{1, 1};
  for (const Value& item : items) sequence->extent = Add(sequence->extent, item.extent());
  JINJA_RETURN_IF_ERROR(CheckExtent(sequence->extent));
  sequence->items = std::move(items);
  return Value::Of(std::move(sequence));
}

absl::StatusOr<Value> MakeIterator(std::vector<Value> items, absl::Status failure) {
  JINJA_ASSIGN_OR_RETURN(Value value, MakeSequence(SequenceKind::kIterator, std::move(items)));
  value.sequence().failure = std::move(failure);
  return value;
}

Value MakeRange(const RangeBounds& range, std::vector<Value> items) {
  auto sequence = std::make_shared<Sequence>();
  sequence->kind = SequenceKind::kRange;
  sequence->extent = Extent{1, 1 + static_cast<std::int64_t>(items.size())};
  sequence->items = std::move(items);
  sequence->range = range;
  return Value::Of(std::move(sequence));
}

int Dict::IndexOf(std::string_view key) const {
  if (entries_.size() > kLargeDict) {
    auto found = by_text_.find(std::string(key));
    return found == by_text_.end() ? -1 : found->second;
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].first.is_string() && entries_[i].first.text() == key)
      return static_cast<int>(i);
  }
  return -1;
}

int Dict::IndexOf(const Value& key) const {
  if (key.is_string()) return IndexOf(key.text());
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (Equal(entries_[i].first, key)) return static_cast<int>(i);
  }
  return -1;
}

void Dict::Append(Value key, Value value) {
  extent_ = Add(Add(extent_, key.extent()), value.extent());
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() <= kLargeDict) return;
  std::size_t first = by_text_.empty() ? 0 : entries_.size() - 1;
  for (std::size_t i = first; i < entries_.size(); ++i) {
    if (entries_[i].first.is_string()) {
      by_text_.emplace(entries_[i].first.text(), static_cast<int>(i));
    }
  }
}

absl::Status Dict::Set(Value key, Value value) {
  if (!IsHashable(key)) return Failure("unhashable type: '", TypeName(key), "'");
  JINJA_RETURN_IF_ERROR(CheckExtent(Add(Add(extent_, key.extent()), value.extent())));
  int index = IndexOf(key);
  if (index < 0) {
    Append(std::move(key), std::move(value));
  } else {
    extent_ = Add(extent_, value.extent());
    entries_[index].second = std::move(value);
  }
  return absl::OkStatus();
}

void Dict::Set(std::string_view key, Value value) {
  int index = IndexOf(key);
  if (index < 0) {
    Append(Value::String(std::string(key)), std::move(value));
  } else {
    extent_ = Add(extent_, value.extent());
    entries_[index].second = std::move(value);
  }
}

const Value* Dict::Find(const Value& key) const {
  int index = IndexOf(key);
  return index < 0 ? nullptr : &entries_[index].second;
}

const Value* Dict::Find(std::string_view key) const {
  int index = IndexOf(key);
  return index < 0 ? nullptr : &entries_[index].second;
}

std::string TypeName(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInteger:
    case Kind::kBigInteger:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.safe() ? "Markup" : "str";
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kMacro:
      return "Macro";
    case Kind::kMethod:
      return "builtin_function_or_method";
    case Kind::kFunction:
      return "function";
    case Kind::kSequence:
      break;
  }
  switch (value.sequence().kind) {
    case SequenceKind::kList:
      return "list";
    case SequenceKind::kTuple:
      return "tuple";
    case SequenceKind::kRange:
      return "range";
    case SequenceKind::kKeys:
      return "dict_keys";
    case SequenceKind::kValues:
      return "dict_values";
    case SequenceKind::kItems:
      return "dict_items";
    case SequenceKind::kIterator:
      break;
  }
  return "generator";
}

}  // namespace thresher::jinja
