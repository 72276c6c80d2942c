// What follows an operand: attributes, subscripts, calls, filters and tests.
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/text/jinja/builtins.h"
#include "engine/text/jinja/expression_parser.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher::jinja {
namespace {

// The text of a literal string, or null.
const std::string* LiteralText(const ExpressionPtr& expression) {
  const auto* literal = std::get_if<Literal>(&expression->node);
  return literal != nullptr && literal->value.is_string() ? &literal->value.text() : nullptr;
}

}  // namespace

absl::StatusOr<ExpressionPtr> ExpressionParser::ParsePostfixOf(ExpressionPtr operand) {
  while (true) {
    if (stream_.IsOperator(".")) {
      JINJA_ASSIGN_OR_RETURN(operand, ParseDot(std::move(operand)));
    } else if (stream_.IsOperator("[")) {
      JINJA_ASSIGN_OR_RETURN(operand, ParseSubscript(std::move(operand)));
    } else if (stream_.IsOperator("(")) {
      JINJA_ASSIGN_OR_RETURN(operand, ParseCall(std::move(operand)));
    } else {
      return operand;
    }
  }
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseDot(ExpressionPtr object) {
  int line = stream_.Take().line;
  if (stream_.Is(TokenKind::kName)) {
    return Make(line, Attribute{std::move(object), stream_.Take().text});
  }
  if (!stream_.Is(TokenKind::kInteger)) {
    return stream_.Error(absl::StrCat("expected a name or a number, found ", stream_.Shown()));
  }
  JINJA_ASSIGN_OR_RETURN(ExpressionPtr key, ParseNumber());
  return Make(line, Subscript{std::move(object), std::move(key)});
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseSubscript(ExpressionPtr object) {
  int line = stream_.Take().line;
  ExpressionPtr start;
  if (!stream_.IsOperator(":")) {
    JINJA_ASSIGN_OR_RETURN(start, ParseExpression());
    if (stream_.IsOperator(",")) return stream_.Unsupported("a subscript of several parts");
  }
  if (!stream_.IsOperator(":")) {
    JINJA_RETURN_IF_ERROR(stream_.ExpectOperator("]"));
    return Make(line, Subscript{std::move(object), std::move(start)});
  }
  SliceOf slice;
  slice.object = std::move(object);
  slice.start = std::move(start);
  for (ExpressionPtr* part : {&slice.stop, &slice.step}) {
    if (!stream_.SkipOperator(":")) break;
    if (stream_.IsOperator(":") || stream_.IsOperator("]")) continue;
    JINJA_ASSIGN_OR_RETURN(*part, ParseExpression());
  }
  if (stream_.IsOperator(",")) return stream_.Unsupported("a subscript of several parts");
  JINJA_RETURN_IF_ERROR(stream_.ExpectOperator("]"));
  return Make(line, std::move(slice));
}

absl::StatusOr<CallArguments> ExpressionParser::ParseArguments() {
  CallArguments arguments;
  JINJA_RETURN_IF_ERROR(stream_.ExpectOperator("("));
  bool first = true;
  while (!stream_.IsOperator(")")) {
    if (!first) JINJA_RETURN_IF_ERROR(stream_.ExpectOperator(","));
    first = false;
    if (stream_.IsOperator(")")) break;
    if (stream_.IsOperator("*") || stream_.IsOperator("**")) {
      return stream_.Unsupported("an argument with '*'");
    }
    bool named = stream_.Is(TokenKind::kName) && stream_.next().kind == TokenKind::kOperator &&
                 stream_.next().text == "=";
    if (named) {
      std::string name = stream_.Take().text;
      stream_.Take();
      JINJA_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
      arguments.named.emplace_back(std::move(name), std::move(value));
      continue;
    }
    if (!arguments.named.empty()) return stream_.Error("a positional argument after a named one");
    JINJA_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    arguments.positional.push_back(std::move(value));
  }
  JINJA_RETURN_IF_ERROR(stream_.ExpectOperator(")"));
  return arguments;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseCall(ExpressionPtr callee) {
  if (const auto* name = std::get_if<Name>(&callee->node)) {
    const std::string& text = symbols_[name->symbol];
    if (IsMissingFunction(text)) return stream_.Unsupported(absl::StrCat("the function ", text));
  } else if (const auto* attribute = std::get_if<Attribute>(&callee->node)) {
    if (IsMissingMethod(attribute->name)) {
      return stream_.Unsupported(absl::StrCat("the method ", attribute->name));
    }
  }
  int line = stream_.line();
  Call node;
  node.callee = std::move(callee);
  JINJA_ASSIGN_OR_RETURN(node.arguments, ParseArguments());
  return Make(line, std::move(node));
}

// The filters and tests that map and select name as literals are refused here and not while a
// request runs.
absl::Status ExpressionParser::CheckNamedBuiltins(const FilterRow& row,
                                                  const CallArguments& arguments) const {
  bool by_attribute = row.name == "selectattr" || row.name == "rejectattr";
  bool maps = row.name == "map";
  if (!by_attribute && !maps && row.name != "select" && row.name != "reject") {
    return absl::OkStatus();
  }
  std::size_t index = by_attribute ? 1 : 0;
  if (arguments.positional.size() <= index) return absl::OkStatus();
  const std::string* name = LiteralText(arguments.positional[index]);
  if (name == nullptr) return absl::OkStatus();
  if (maps && FindFilter(*name) == nullptr) {
    return stream_.Unsupported(absl::StrCat("the filter ", *name));
  }
  if (!maps && FindTest(*name) == nullptr) {
    return stream_.Unsupported(absl::StrCat("the test ", *name));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseFilter(ExpressionPtr operand) {
  if (!stream_.Is(TokenKind::kName)) {
    return stream_.Error(absl::StrCat("expected a filter, found ", stream_.Shown()));
  }
  Token name = stream_.Take();
  while (stream_.SkipOperator(".")) absl::StrAppend(&name.text, ".", stream_.Take().text);
  Filter node{std::move(operand), FindFilter(name.text), {}};
  if (node.row == nullptr) return stream_.Unsupported(absl::StrCat("the filter ", name.text));
  if (stream_.IsOperator("(")) {
    JINJA_ASSIGN_OR_RETURN(node.arguments, ParseArguments());
  }
  JINJA_RETURN_IF_ERROR(CheckNamedBuiltins(*node.row, node.arguments));
  return Make(name.line, std::move(node));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseTest(ExpressionPtr operand) {
  int line = stream_.Take().line;  // is
  bool negated = stream_.SkipName("not");
  if (!stream_.Is(TokenKind::kName)) {
    return stream_.Error(absl::StrCat("expected a test, found ", stream_.Shown()));
  }
  Token name = stream_.Take();
  Test node{std::move(operand), FindTest(name.text), {}};
  if (node.row == nullptr) return stream_.Unsupported(absl::StrCat("the test ", name.text));
  bool word = stream_.Is(TokenKind::kName) && !stream_.IsName("else") && !stream_.IsName("or") &&
              !stream_.IsName("and");
  if (stream_.IsOperator("(")) {
    JINJA_ASSIGN_OR_RETURN(node.arguments, ParseArguments());
  } else if (word || stream_.Is(TokenKind::kString) || stream_.Is(TokenKind::kInteger) ||
             stream_.Is(TokenKind::kFloat) || stream_.IsOperator("[") || stream_.IsOperator("{")) {
    if (stream_.IsName("is")) return stream_.Error("tests cannot be chained with `is`");
    // A test may take one argument without brackets: `x is divisibleby 3`.
    JINJA_ASSIGN_OR_RETURN(ExpressionPtr argument, ParsePrimary());
    JINJA_ASSIGN_OR_RETURN(argument, ParsePostfixOf(std::move(argument)));
    node.arguments.positional.push_back(std::move(argument));
  }
  JINJA_ASSIGN_OR_RETURN(ExpressionPtr test, Make(line, std::move(node)));
  if (!negated) return test;
  return Make(line, Unary{UnaryOperator::kNot, std::move(test)});
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseFiltersAndTests(ExpressionPtr operand) {
  while (true) {
    if (stream_.SkipOperator("|")) {
      JINJA_ASSIGN_OR_RETURN(operand, ParseFilter(std::move(operand)));
    } else if (stream_.IsName("is")) {
      JINJA_ASSIGN_OR_RETURN(operand, ParseTest(std::move(operand)));
    } else if (stream_.IsOperator("(")) {
      JINJA_ASSIGN_OR_RETURN(operand, ParseCall(std::move(operand)));
    } else {
      return operand;
    }
  }
}

}  // namespace thresher::jinja
