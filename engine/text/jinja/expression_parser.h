// Expressions of a template, with Jinja's own precedence (`~` binds tighter than `+`).
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/text/jinja/ast.h"
#include "engine/text/jinja/token_stream.h"

namespace thresher::jinja {

class ExpressionParser {
 public:
  // The stream outlives the parser.
  explicit ExpressionParser(TokenStream& stream);

  // One expression; with_condition allows `a if b else c`.
  absl::StatusOr<ExpressionPtr> ParseExpression(bool with_condition = true);
  // One expression or, where commas follow, a tuple.
  absl::StatusOr<ExpressionPtr> ParseTuple(bool with_condition);
  // `name(arguments)|…`, without operand for the first if it is null. At least one filter.
  absl::StatusOr<ExpressionPtr> ParseFilter(ExpressionPtr operand);
  absl::StatusOr<ExpressionPtr> ParsePostfixOf(ExpressionPtr operand);

  Symbol Intern(std::string_view name);
  const std::vector<std::string>& symbols() const { return symbols_; }
  std::vector<std::string> TakeSymbols() { return std::move(symbols_); }
  // Whether `symbol` was read as a variable since the mark was taken.
  std::size_t Mark() const { return reads_.size(); }
  bool ReadSince(std::size_t mark, Symbol symbol) const;

 private:
  absl::StatusOr<ExpressionPtr> ParseBinary(int level);
  absl::StatusOr<ExpressionPtr> ParseNot();
  absl::StatusOr<ExpressionPtr> ParseCompare();
  absl::StatusOr<ExpressionPtr> ParseConcatenation();
  absl::StatusOr<ExpressionPtr> ParseUnary(bool with_filters);
  absl::StatusOr<ExpressionPtr> ParsePrimary();
  absl::StatusOr<ExpressionPtr> ParseName();
  absl::StatusOr<ExpressionPtr> ParseNumber();
  absl::StatusOr<ExpressionPtr> ParseParenthesized();
  absl::StatusOr<ExpressionPtr> ParseList();
  absl::StatusOr<ExpressionPtr> ParseDict();
  absl::StatusOr<ExpressionPtr> ParseDot(ExpressionPtr object);
  absl::StatusOr<ExpressionPtr> ParseSubscript(ExpressionPtr object);
  absl::StatusOr<ExpressionPtr> ParseCall(ExpressionPtr callee);
  absl::StatusOr<ExpressionPtr> ParseTest(ExpressionPtr operand);
  absl::StatusOr<ExpressionPtr> ParseFiltersAndTests(ExpressionPtr operand);
  absl::StatusOr<CallArguments> ParseArguments();
  absl::Status CheckNamedBuiltins(const FilterRow& row, const CallArguments& arguments) const;
  absl::Status TooDeep() const;
  bool AtTupleEnd() const;

  // Sets line and height; InvalidArgument past kMaxHeight.
  absl::StatusOr<ExpressionPtr> Make(int line, Expression::Node node);

  TokenStream& stream_;
  std::vector<std::string> symbols_;
  std::unordered_map<std::string, Symbol> symbol_of_;
  std::vector<Symbol> reads_;
  int nesting_ = 0;
};

}  // namespace thresher::jinja
