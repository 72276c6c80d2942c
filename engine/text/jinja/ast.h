// A parsed chat template. Immutable once parsed; shared by renders on any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/text/jinja/value.h"

namespace thresher::jinja {

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<Expression>;
using Block = std::vector<Statement>;
// A variable's name as a number: an index of Template::symbols.
using Symbol = int;

struct FilterRow;  // builtins.h
struct TestRow;

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};

struct Literal {
  Value value;
};
struct Name {
  Symbol symbol;
};
struct ListDisplay {
  SequenceKind kind;  // kList or kTuple
  std::vector<ExpressionPtr> items;
};
struct DictDisplay {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct Attribute {
  ExpressionPtr object;
  std::string name;
};
struct Subscript {
  ExpressionPtr object;
  ExpressionPtr key;
};
struct SliceOf {
  ExpressionPtr object;
  ExpressionPtr start, stop, step;  // null where left out
};
struct Call {
  ExpressionPtr callee;
  CallArguments arguments;
};
struct Filter {
  ExpressionPtr operand;  // null in a filter chain of a block: the block's text
  const FilterRow* row;
  CallArguments arguments;
};
struct Test {
  ExpressionPtr operand;
  const TestRow* row;
  CallArguments arguments;
};
enum class UnaryOperator { kMinus, kPlus, kNot };
struct Unary {
  UnaryOperator op;
  ExpressionPtr operand;
};
enum class BinaryOperator { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
struct Binary {
  BinaryOperator op;
  ExpressionPtr left, right;
};
struct Logical {
  bool is_and;
  ExpressionPtr left, right;
};
struct Concatenation {
  std::vector<ExpressionPtr> parts;
};
enum class Comparison {
  kEqual,
  kNotEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kIn,
  kNotIn
};
// a < b < c: each middle operand is evaluated once.
struct Compare {
  ExpressionPtr first;
  std::vector<std::pair<Comparison, ExpressionPtr>> rest;
};
struct Conditional {
  ExpressionPtr condition, then, otherwise;  // otherwise may be null
};

struct Expression {
  using Node =
      std::variant<Literal, Name, ListDisplay, DictDisplay, Attribute, Subscript, SliceOf, Call,
                   Filter, Test, Unary, Binary, Logical, Concatenation, Compare, Conditional>;
  int line = 0;
  int height = 1;  // of the tree below, this node included
  Node node;
};

// What set and for assign to: one name, several names that share out a sequence, or an attribute of
// a namespace.
struct Target {
  std::vector<Symbol> names;
  bool unpacks = false;
  std::string attribute;  // of names[0]; empty if none
};

struct Data {
  std::string text;
};
struct Print {
  ExpressionPtr value;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Block>> branches;
  Block otherwise;
};
struct For {
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr condition;  // null if none
  Block body;
  Block otherwise;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  std::vector<ExpressionPtr> filters;  // each a Filter without operand, in order
  Block body;
};
struct Parameters {
  std::vector<Symbol> names;
  std::vector<ExpressionPtr> defaults;  // of the last ones
};
struct MacroDefinition {
  std::string name;
  Symbol symbol = -1;
  Parameters parameters;
  Block body;
  // Whether the body names them; if not, more arguments than parameters are an error.
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_caller = false;
};
struct DefineMacro {
  std::shared_ptr<const MacroDefinition> macro;
};
struct CallBlock {
  ExpressionPtr call;  // a Call
  std::shared_ptr<const MacroDefinition> caller;
};
struct FilterBlock {
  std::vector<ExpressionPtr> filters;
  Block body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> assignments;
  Block body;
};
struct Scoped {  // {% generation %}
  Block body;
};
struct Break {};
struct Continue {};

struct Statement {
  int line = 0;
  std::variant<Data, Print, If, For, Set, SetBlock, DefineMacro, CallBlock, FilterBlock, With,
               Scoped, Break, Continue>
      node;
};

// Symbols that the interpreter itself binds; the first of Template::symbols.
enum ReservedSymbol : Symbol { kLoopSymbol, kCallerSymbol, kVarargsSymbol, kKwargsSymbol };

struct Template {
  Block body;
  std::vector<std::string> symbols;
  // True if some for statement walks over `content`, so that a message's parts are its to read.
  bool walks_content = false;
};

}  // namespace thresher::jinja
