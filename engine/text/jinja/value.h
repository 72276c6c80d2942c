// What an expression of a chat template evaluates to, with Python's meanings. A value is cheap to
// copy: texts and containers are shared and, but for namespaces and iterators, never change.
// Values belong to one render and one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace thresher::jinja {

class Value;
struct Sequence;
class Dict;
struct NamespaceObject;
struct LoopObject;
struct MacroObject;
struct MethodObject;
struct Function;

using Text = std::shared_ptr<const std::string>;

// How large a value is when it is walked: containers inside containers, and atoms (a long text
// counts as several), where a shared part counts each time it is met. A value past these limits is
// an error when it is made, so that walking one exhausts neither the stack nor the clock.
struct Extent {
  int depth = 0;
  std::int64_t atoms = 1;
};
inline constexpr int kMaxValueDepth = 128;
inline constexpr std::int64_t kMaxValueAtoms = 4'000'000;
inline constexpr std::size_t kBytesPerAtom = 64;

// A name that has no value. `why` says which one, for the error when it is used.
struct UndefinedValue {
  Text why;
};
struct NoneValue {};
// An integer out of int64, kept as its digits: it can be shown and compared, not computed with.
struct BigInteger {
  Text digits;
};
// `safe` is Jinja's Markup: adding a plain string to it escapes that string.
struct StringValue {
  Text text;
  bool safe = false;
};

enum class Kind {
  kUndefined,
  kNone,
  kBool,
  kInteger,
  kBigInteger,
  kFloat,
  kString,
  kSequence,
  kDict,
  kNamespace,
  kLoop,
  kMacro,
  kMethod,
  kFunction,
};

class Value {
 public:
  Value() : held_(UndefinedValue{}) {}
  static Value Undefined(std::string why);
  static Value None() { return Value(NoneValue{}); }
  static Value Bool(bool value) { return Value(value); }
  static Value Integer(std::int64_t value) { return Value(value); }
  static Value Big(std::string digits);
  static Value Float(double value) { return Value(value); }
  static Value String(std::string text, bool safe = false);
  static Value Of(std::shared_ptr<Sequence> sequence) { return Value(std::move(sequence)); }
  static Value Of(std::shared_ptr<const Dict> dict) { return Value(std::move(dict)); }
  static Value Of(std::shared_ptr<NamespaceObject> object) { return Value(std::move(object)); }
  static Value Of(std::shared_ptr<LoopObject> loop) { return Value(std::move(loop)); }
  static Value Of(std::shared_ptr<const MacroObject> macro) { return Value(std::move(macro)); }
  static Value Of(std::shared_ptr<const MethodObject> method) { return Value(std::move(method)); }
  static Value Of(const Function* function) { return Value(function); }

  Kind kind() const { return static_cast<Kind>(held_.index()); }
  bool is(Kind kind) const { return this->kind() == kind; }
  bool is_undefined() const { return is(Kind::kUndefined); }
  bool is_none() const { return is(Kind::kNone); }
  bool is_string() const { return is(Kind::kString); }
  bool is_dict() const { return is(Kind::kDict); }
  bool is_sequence() const { return is(Kind::kSequence); }
  // True, False and numbers, as Python's int, bool and float.
  bool is_number() const;
  bool is_integral() const { return is(Kind::kInteger) || is(Kind::kBool); }

  // Each needs the kind of its name.
  const std::string& why() const;  // empty if nothing is known
  bool boolean() const { return std::get<bool>(held_); }
  std::int64_t integer() const;  // kInteger or kBool
  double number() const;         // any number; a big integer rounded
  const std::string& digits() const { return *std::get<BigInteger>(held_).digits; }
  const std::string& text() const { return *std::get<StringValue>(held_).text; }
  bool safe() const { return std::get<StringValue>(held_).safe; }
  Sequence& sequence() const { return *std::get<std::shared_ptr<Sequence>>(held_); }
  // For a loop, which keeps what it walks.
  std::shared_ptr<const Sequence> sequence_ptr() const {
    return std::get<std::shared_ptr<Sequence>>(held_);
  }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(held_); }
  NamespaceObject& space() const { return *std::get<std::shared_ptr<NamespaceObject>>(held_); }
  LoopObject& loop() const { return *std::get<std::shared_ptr<LoopObject>>(held_); }
  const std::shared_ptr<const MacroObject>& macro() const;
  const MethodObject& method() const {
    return *std::get<std::shared_ptr<const MethodObject>>(held_);
  }
  const Function& function() const { return *std::get<const Function*>(held_); }

  // Depth 0 for what holds no other value.
  Extent extent() const;
  // True if both are one object, or equal atoms of one kind (Python's `is`, where it is defined).
  bool Same(const Value& other) const;

 private:
  using Held = std::variant<UndefinedValue, NoneValue, bool, std::int64_t, BigInteger, double,
                            StringValue, std::shared_ptr<Sequence>, std::shared_ptr<const Dict>,
                            std::shared_ptr<NamespaceObject>, std::shared_ptr<LoopObject>,
                            std::shared_ptr<const MacroObject>, std::shared_ptr<const MethodObject>,
                            const Function*>;
  template <typename T>
  explicit Value(T held) : held_(std::move(held)) {}
  Held held_;
};

enum class SequenceKind { kList, kTuple, kRange, kKeys, kValues, kItems, kIterator };

struct RangeBounds {
  std::int64_t start = 0;
  std::int64_t stop = 0;
  std::int64_t step = 1;
};

// Everything that is walked from front to back. An iterator (what map, select and the like give) is
// walked once: `consumed` items are gone. Python makes its items as it is walked, so what goes
// wrong is told only to whoever comes to that place: after the items there are.
struct Sequence {
  SequenceKind kind = SequenceKind::kList;
  std::vector<Value> items;
  std::size_t consumed = 0;
  Extent extent;
  RangeBounds range;     // of a range
  absl::Status failure;  // of an iterator
};

// InvalidArgument if it would pass the limits of Extent.
absl::StatusOr<Value> MakeSequence(SequenceKind kind, std::vector<Value> items);
// An iterator over the items, with that failure at its end.
absl::StatusOr<Value> MakeIterator(std::vector<Value> items, absl::Status failure);
// The range of those bounds, whose items are given.
Value MakeRange(const RangeBounds& range, std::vector<Value> items);

// Keys in order of insertion; a key set again keeps its place. Keys are strings or other atoms.
class Dict {
 public:
  // InvalidArgument for a key that Python cannot hash, or past the limits of Extent.
  absl::Status Set(Value key, Value value);
  void Set(std::string_view key, Value value);  // the extent is the caller's to check
  const Value* Find(const Value& key) const;    // null if absent, or not a possible key
  const Value* Find(std::string_view key) const;
  const std::vector<std::pair<Value, Value>>& entries() const { return entries_; }
  std::size_t size() const { return entries_.size(); }
  Extent extent() const { return extent_; }

 private:
  int IndexOf(std::string_view key) const;
  int IndexOf(const Value& key) const;
  void Append(Value key, Value value);

  std::vector<std::pair<Value, Value>> entries_;
  std::unordered_map<std::string, int> by_text_;  // string keys; filled once the dict is large
  Extent extent_{1, 1};
};

// What `namespace()` makes: the one thing that a template can change. The render clears it at its
// end, so that a namespace that holds itself is freed.
struct NamespaceObject {
  Dict attributes;
};

// The variable `loop` of one for statement.
struct LoopObject {
  std::shared_ptr<const Sequence> items;  // all of them; the filter has been applied
  std::size_t index = 0;                  // from 0
  bool changed_called = false;
  std::vector<Value> last_changed;
};

// A method of a string, dict, sequence or loop, bound to it.
struct MethodObject {
  Value self;
  std::string name;
};

// Python's words for the type, for messages.
std::string TypeName(const Value& value);

// Python's bool(), == and <. Less is InvalidArgument for types without an order.
bool Truth(const Value& value);
bool Equal(const Value& left, const Value& right);
absl::StatusOr<bool> Less(const Value& left, const Value& right);

}  // namespace thresher::jinja
