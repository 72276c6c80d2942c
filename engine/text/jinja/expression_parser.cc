#include "engine/text/jinja/expression_parser.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/text/jinja/builtins.h"
#include "engine/text/jinja/expression_height.h"
#include "engine/text/jinja/parser.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher::jinja {
namespace {

// Left-associative operators, loosest first. Comparison and `~` sit between and have parsers of
// their own.
struct BinaryLevel {
  std::array<std::pair<std::string_view, BinaryOperator>, 4> operators;
  int num_operators;
};
constexpr int kAddLevel = 0;
constexpr int kMultiplyLevel = 1;
constexpr int kPowerLevel = 2;
constexpr BinaryLevel kLevels[] = {
    {{{{"+", BinaryOperator::kAdd}, {"-", BinaryOperator::kSubtract}}}, 2},
    {{{{"*", BinaryOperator::kMultiply},
       {"/", BinaryOperator::kDivide},
       {"//", BinaryOperator::kFloorDivide},
       {"%", BinaryOperator::kModulo}}},
     4},
    {{{{"**", BinaryOperator::kPower}}}, 1},
};

constexpr std::pair<std::string_view, Comparison> kComparisons[] = {
    {"==", Comparison::kEqual},  {"!=", Comparison::kNotEqual},
    {"<", Comparison::kLess},    {"<=", Comparison::kLessOrEqual},
    {">", Comparison::kGreater}, {">=", Comparison::kGreaterOrEqual},
};

// Counts brackets and operators inside each other for as long as it lives.
class Nesting {
 public:
  explicit Nesting(int& count) : count_(count) { ++count_; }
  ~Nesting() { --count_; }
  bool too_deep() const { return count_ > kMaxNesting; }

 private:
  int& count_;
};

}  // namespace

ExpressionParser::ExpressionParser(TokenStream& stream) : stream_(stream) {
  for (std::string_view name : {"loop", "caller", "varargs", "kwargs"}) Intern(name);
}

absl::StatusOr<ExpressionPtr> ExpressionParser::Make(int line, Expression::Node node) {
  auto expression = std::make_unique<Expression>();
  expression->line = line;
  expression->node = std::move(node);
  expression->height = 1 + TallestChild(*expression);
  if (expression->height > kMaxHeight) {
    return stream_.Error(absl::StrCat("an expression is nested more than ", kMaxHeight, " deep"));
  }
  return expression;
}

Symbol ExpressionParser::Intern(std::string_view name) {
  auto [found, inserted] =
      symbol_of_.emplace(std::string(name), static_cast<Symbol>(symbols_.size()));
  if (inserted) symbols_.emplace_back(name);
  return found->second;
}

bool ExpressionParser::ReadSince(std::size_t mark, Symbol symbol) const {
  return std::find(reads_.begin() + static_cast<std::ptrdiff_t>(mark), reads_.end(), symbol) !=
         reads_.end();
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseExpression(bool with_condition) {
  Nesting nesting(nesting_);
  if (nesting.too_deep()) {
    return TooDeep();
  }
  // `or` holds `and`; both are left-associative.
  auto parse_and = [&]() -> absl::StatusOr<ExpressionPtr> {
    JINJA_ASSIGN_OR_RETURN(ExpressionPtr left, ParseNot());
    while (stream_.SkipName("and")) {
      JINJA_ASSIGN_OR_RETURN(ExpressionPtr right, ParseNot());
      JINJA_ASSIGN_OR_RETURN(
          left, Make(stream_.line(), Logical{true, std::move(left), std::move(right)}));
    }
    return left;
  };
  auto parse_or = [&]() -> absl::StatusOr<ExpressionPtr> {
    JINJA_ASSIGN_OR_RETURN(ExpressionPtr left, parse_and());
    while (stream_.SkipName("or")) {
      JINJA_ASSIGN_OR_RETURN(ExpressionPtr right, parse_and());
      JINJA_ASSIGN_OR_RETURN(
          left, Make(stream_.line(), Logical{false, std::move(left), std::move(right)}));
    }
    return left;
  };
  JINJA_ASSIGN_OR_RETURN(ExpressionPtr result, parse_or());
  while (with_condition && stream_.SkipName("if")) {
    Conditional node;
    JINJA_ASSIGN_OR_RETURN(node.condition, parse_or());
    node.then = std::move(result);
    if (stream_.SkipName("else")) {
      JINJA_ASSIGN_OR_RETURN(node.otherwise, ParseExpression());
    }
    JINJA_ASSIGN_OR_RETURN(result, Make(stream_.line(), std::move(node)));
  }
  return result;
}

absl::Status ExpressionParser::TooDeep() const {
  return stream_.Error(
      absl::StrCat("more than ", kMaxNesting, " brackets, signs or `not` inside each other"));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseNot() {
  if (!stream_.IsName("not")) return ParseCompare();
  Nesting nesting(nesting_);
  if (nesting.too_deep()) return TooDeep();
  int line = stream_.Take().line;
  JINJA_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseNot());
  return Make(line, Unary{UnaryOperator::kNot, std::move(operand)});
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseCompare() {
  JINJA_ASSIGN_OR_RETURN(ExpressionPtr first, ParseBinary(kAddLevel));
  Compare node;
  int line = stream_.line();
  while (true) {
    const Comparison* found = nullptr;
    for (const auto& [text, comparison] : kComparisons) {
      if (stream_.IsOperator(text)) found = &comparison;
    }
    Comparison comparison = Comparison::kIn;
    if (found != nullptr) {
      comparison = *found;
      stream_.Take();
    } else if (stream_.SkipName("in")) {
      comparison = Comparison::kIn;
    } else if (stream_.IsName("not") && stream_.next().kind == TokenKind::kName &&
               stream_.next().text == "in") {
      stream_.Take();
      stream_.Take();
      comparison = Comparison::kNotIn;
    } else {
      break;
    }
    JINJA_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseBinary(kAddLevel));
    node.rest.emplace_back(comparison, std::move(operand));
  }
  if (node.rest.empty()) return first;
  node.first = std::move(first);
  return Make(line, std::move(node));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseBinary(int level) {
  auto operand = [&]() -> absl::StatusOr<ExpressionPtr> {
    if (level == kAddLevel) return ParseConcatenation();
    if (level == kMultiplyLevel) return ParseBinary(kPowerLevel);
    return ParseUnary(true);
  };
  JINJA_ASSIGN_OR_RETURN(ExpressionPtr left, operand());
  while (true) {
    const BinaryOperator* found = nullptr;
    for (int i = 0; i < kLevels[level].num_operators; ++i) {
      if (stream_.IsOperator(kLevels[level].operators[i].first)) {
        found = &kLevels[level].operators[i].second;
      }
    }
    if (found == nullptr) return left;
    int line = stream_.Take().line;
    JINJA_ASSIGN_OR_RETURN(ExpressionPtr right, operand());
    JINJA_ASSIGN_OR_RETURN(left, Make(line, Binary{*found, std::move(left), std::move(right)}));
  }
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseConcatenation() {
  int line = stream_.line();
  Concatenation node;
  do {
    JINJA_ASSIGN_OR_RETURN(ExpressionPtr part, ParseBinary(kMultiplyLevel));
    node.parts.push_back(std::move(part));
  } while (stream_.SkipOperator("~"));
  if (node.parts.size() == 1) return std::move(node.parts[0]);
  return Make(line, std::move(node));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseUnary(bool with_filters) {
  Nesting nesting(nesting_);
  if (nesting.too_deep()) return TooDeep();
  ExpressionPtr node;
  if (stream_.IsOperator("-") || stream_.IsOperator("+")) {
    Token sign = stream_.Take();
    JINJA_ASSIGN_OR_RETURN(node, ParseUnary(false));
    UnaryOperator op = sign.text == "-" ? UnaryOperator::kMinus : UnaryOperator::kPlus;
    JINJA_ASSIGN_OR_RETURN(node, Make(sign.line, Unary{op, std::move(node)}));
  } else {
    JINJA_ASSIGN_OR_RETURN(node, ParsePrimary());
  }
  JINJA_ASSIGN_OR_RETURN(node, ParsePostfixOf(std::move(node)));
  if (with_filters) return ParseFiltersAndTests(std::move(node));
  return node;
}

bool ExpressionParser::AtTupleEnd() const {
  return stream_.Is(TokenKind::kVariableEnd) || stream_.Is(TokenKind::kBlockEnd) ||
         stream_.IsOperator(")");
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseTuple(bool with_condition) {
  int line = stream_.line();
  ListDisplay node{SequenceKind::kTuple, {}};
  bool has_comma = false;
  while (!(has_comma && AtTupleEnd())) {
    JINJA_ASSIGN_OR_RETURN(ExpressionPtr item, ParseExpression(with_condition));
    node.items.push_back(std::move(item));
    if (!stream_.SkipOperator(",")) break;
    has_comma = true;
  }
  if (!has_comma) return std::move(node.items[0]);
  return Make(line, std::move(node));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParsePrimary() {
  const Token& token = stream_.current();
  switch (token.kind) {
    case TokenKind::kName:
      return ParseName();
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return ParseNumber();
    case TokenKind::kString: {
      int line = stream_.line();
      std::string text;
      while (stream_.Is(TokenKind::kString)) text += stream_.Take().text;
      return Make(line, Literal{Value::String(std::move(text))});
    }
    case TokenKind::kOperator:
      if (token.text == "(") return ParseParenthesized();
      if (token.text == "[") return ParseList();
      if (token.text == "{") return ParseDict();
      break;
    default:
      break;
  }
  return stream_.Error(absl::StrCat("expected an expression, found ", stream_.Shown()));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseName() {
  Token token = stream_.Take();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return Make(token.line, Literal{Value::Bool(true)});
  if (name == "false" || name == "False") return Make(token.line, Literal{Value::Bool(false)});
  if (name == "none" || name == "None") return Make(token.line, Literal{Value::None()});
  Symbol symbol = Intern(name);
  reads_.push_back(symbol);
  return Make(token.line, Name{symbol});
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseNumber() {
  Token token = stream_.Take();
  if (token.kind == TokenKind::kFloat) {
    return Make(token.line, Literal{Value::Float(std::strtod(token.text.c_str(), nullptr))});
  }
  bool has_base = token.text.size() > 2 && token.text[0] == '0';
  int base = 10;
  if (has_base)
    base =
        token.text[1] == 'x' || token.text[1] == 'X' ? 16 : ((token.text[1] | 0x20) == 'o' ? 8 : 2);
  std::int64_t value = 0;
  for (char c : token.text.substr(has_base ? 2 : 0)) {
    int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    if (__builtin_mul_overflow(value, base, &value) ||
        __builtin_add_overflow(value, digit, &value)) {
      return stream_.Error("an integer that does not fit 64 bits");
    }
  }
  return Make(token.line, Literal{Value::Integer(value)});
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseParenthesized() {
  int line = stream_.Take().line;
  if (stream_.SkipOperator(")")) return Make(line, ListDisplay{SequenceKind::kTuple, {}});
  JINJA_ASSIGN_OR_RETURN(ExpressionPtr inner, ParseTuple(true));
  JINJA_RETURN_IF_ERROR(stream_.ExpectOperator(")"));
  return inner;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseList() {
  ListDisplay node{SequenceKind::kList, {}};
  int line = stream_.Take().line;
  while (!stream_.IsOperator("]")) {
    if (!node.items.empty()) JINJA_RETURN_IF_ERROR(stream_.ExpectOperator(","));
    if (stream_.IsOperator("]")) break;
    JINJA_ASSIGN_OR_RETURN(ExpressionPtr item, ParseExpression());
    node.items.push_back(std::move(item));
  }
  JINJA_RETURN_IF_ERROR(stream_.ExpectOperator("]"));
  return Make(line, std::move(node));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseDict() {
  DictDisplay node;
  int line = stream_.Take().line;
  while (!stream_.IsOperator("}")) {
    if (!node.entries.empty()) JINJA_RETURN_IF_ERROR(stream_.ExpectOperator(","));
    if (stream_.IsOperator("}")) break;
    JINJA_ASSIGN_OR_RETURN(ExpressionPtr key, ParseExpression());
    JINJA_RETURN_IF_ERROR(stream_.ExpectOperator(":"));
    JINJA_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    node.entries.emplace_back(std::move(key), std::move(value));
  }
  JINJA_RETURN_IF_ERROR(stream_.ExpectOperator("}"));
  return Make(line, std::move(node));
}

}  // namespace thresher::jinja
