#include "engine/text/jinja/parser.h"

#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/text/jinja/expression_parser.h"
#include "engine/text/jinja/lexer.h"
#include "engine/text/jinja/status_macros.h"
#include "engine/text/jinja/token_stream.h"

namespace thresher::jinja {
namespace {

using Words = std::initializer_list<std::string_view>;

// True for `content`, `x.content` and `x['content']`, through filters.
bool IsContent(const Expression& expression, const std::vector<std::string>& symbols) {
  if (const auto* name = std::get_if<Name>(&expression.node)) {
    return symbols[name->symbol] == "content";
  }
  if (const auto* attribute = std::get_if<Attribute>(&expression.node)) {
    return attribute->name == "content";
  }
  if (const auto* subscript = std::get_if<Subscript>(&expression.node)) {
    const auto* key = std::get_if<Literal>(&subscript->key->node);
    return key != nullptr && key->value.is_string() && key->value.text() == "content";
  }
  if (const auto* filter = std::get_if<Filter>(&expression.node)) {
    return filter->operand != nullptr && IsContent(*filter->operand, symbols);
  }
  return false;
}

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : stream_(std::move(tokens)), expressions_(stream_) {}

  absl::StatusOr<Template> Run() {
    Template parsed;
    JINJA_RETURN_IF_ERROR(ParseBody(parsed.body, {}));
    parsed.walks_content = walks_content_;
    parsed.symbols = expressions_.TakeSymbols();
    return parsed;
  }

 private:
  // Statements up to a tag that starts with one of `ends`, whose word is left as the current token;
  // to the end of the template if there are none.
  absl::Status ParseBody(Block& body, Words ends) {
    if (nesting_ >= kMaxNesting) {
      return stream_.Error(
          absl::StrCat("more than ", kMaxNesting, " statements inside each other"));
    }
    ++nesting_;
    absl::Status status = ParseStatements(body, ends);
    --nesting_;
    return status;
  }

  absl::Status ParseStatements(Block& body, Words ends) {
    while (true) {
      int line = stream_.line();
      if (stream_.Is(TokenKind::kData)) {
        body.push_back({line, Data{stream_.Take().text}});
      } else if (stream_.Is(TokenKind::kVariableBegin)) {
        stream_.Take();
        JINJA_ASSIGN_OR_RETURN(ExpressionPtr value, expressions_.ParseTuple(true));
        JINJA_RETURN_IF_ERROR(stream_.Expect(TokenKind::kVariableEnd, "'}}'"));
        body.push_back({line, Print{std::move(value)}});
      } else if (stream_.Is(TokenKind::kBlockBegin)) {
        stream_.Take();
        for (std::string_view end : ends) {
          if (stream_.IsName(end)) return absl::OkStatus();
        }
        JINJA_RETURN_IF_ERROR(ParseStatement(body));
      } else if (ends.size() == 0) {
        return absl::OkStatus();
      } else {
        return stream_.Error(absl::StrCat("expected {% ", std::string(*(ends.end() - 1)),
                                          " %}, found the end of the template"));
      }
    }
  }

  // A body and the tag that ends it.
  absl::Status ParseBodyAndEnd(Block& body, std::string_view end) {
    JINJA_RETURN_IF_ERROR(stream_.Expect(TokenKind::kBlockEnd, "'%}'"));
    JINJA_RETURN_IF_ERROR(ParseBody(body, {end}));
    stream_.Take();
    return stream_.Expect(TokenKind::kBlockEnd, "'%}'");
  }

  absl::Status ParseStatement(Block& body) {
    if (!stream_.Is(TokenKind::kName)) {
      return stream_.Error(absl::StrCat("expected a statement, found ", stream_.Shown()));
    }
    Token word = stream_.Take();
    Statement statement;
    statement.line = word.line;
    using Method = absl::Status (Parser::*)(Statement&);
    static constexpr std::pair<std::string_view, Method> kStatements[] = {
        {"if", &Parser::ParseIf},          {"for", &Parser::ParseFor},
        {"set", &Parser::ParseSet},        {"macro", &Parser::ParseMacro},
        {"call", &Parser::ParseCallBlock}, {"filter", &Parser::ParseFilterBlock},
        {"with", &Parser::ParseWith},      {"generation", &Parser::ParseGeneration},
        {"break", &Parser::ParseBreak},    {"continue", &Parser::ParseContinue},
    };
    for (const auto& [name, method] : kStatements) {
      if (name != word.text) continue;
      JINJA_RETURN_IF_ERROR((this->*method)(statement));
      body.push_back(std::move(statement));
      return absl::OkStatus();
    }
    if (word.text.rfind("end", 0) == 0 || word.text == "else" || word.text == "elif") {
      return stream_.Error(absl::StrCat("unexpected {% ", word.text, " %}"));
    }
    return stream_.Unsupported(absl::StrCat("the statement {% ", word.text, " %}"));
  }

  absl::Status ParseIf(Statement& statement) {
    If node;
    while (true) {
      JINJA_ASSIGN_OR_RETURN(ExpressionPtr condition, expressions_.ParseTuple(false));
      JINJA_RETURN_IF_ERROR(stream_.Expect(TokenKind::kBlockEnd, "'%}'"));
      Block branch;
      JINJA_RETURN_IF_ERROR(ParseBody(branch, {"elif", "else", "endif"}));
      node.branches.emplace_back(std::move(condition), std::move(branch));
      if (stream_.SkipName("elif")) continue;
      if (stream_.SkipName("else")) {
        JINJA_RETURN_IF_ERROR(ParseBodyAndEnd(node.otherwise, "endif"));
      } else {
        stream_.Take();  // endif
        JINJA_RETURN_IF_ERROR(stream_.Expect(TokenKind::kBlockEnd, "'%}'"));
      }
      statement.node = std::move(node);
      return absl::OkStatus();
    }
  }

  absl::Status ParseFor(Statement& statement) {
    For node;
    JINJA_ASSIGN_OR_RETURN(node.target, ParseTarget(false));
    if (!stream_.SkipName("in")) return stream_.Error("expected `in` after the name of a loop");
    JINJA_ASSIGN_OR_RETURN(node.iterable, expressions_.ParseTuple(false));
    walks_content_ = walks_content_ || IsContent(*node.iterable, expressions_.symbols());
    if (stream_.SkipName("if")) {
      JINJA_ASSIGN_OR_RETURN(node.condition, expressions_.ParseExpression());
    }
    if (stream_.IsName("recursive")) return stream_.Unsupported("a recursive for statement");
    JINJA_RETURN_IF_ERROR(stream_.Expect(TokenKind::kBlockEnd, "'%}'"));
    ++loops_;
    absl::Status status = ParseBody(node.body, {"else", "endfor"});
    --loops_;
    JINJA_RETURN_IF_ERROR(status);
    if (stream_.Take().text == "else") {
      JINJA_RETURN_IF_ERROR(ParseBodyAndEnd(node.otherwise, "endfor"));
    } else {
      JINJA_RETURN_IF_ERROR(stream_.Expect(TokenKind::kBlockEnd, "'%}'"));
    }
    statement.node = std::move(node);
    return absl::OkStatus();
  }

  absl::StatusOr<Symbol> ParseTargetName() {
    if (!stream_.Is(TokenKind::kName)) {
      if (stream_.IsOperator("(")) return stream_.Unsupported("a name in brackets inside a target");
      return stream_.Error(absl::StrCat("expected a name to assign to, found ", stream_.Shown()));
    }
    std::string name = stream_.Take().text;
    for (std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
      if (name == constant) return stream_.Error(absl::StrCat("cannot assign to '", name, "'"));
    }
    return expressions_.Intern(name);
  }

  absl::StatusOr<Target> ParseTarget(bool with_attribute) {
    Target target;
    bool brackets = stream_.SkipOperator("(");
    JINJA_ASSIGN_OR_RETURN(Symbol first, ParseTargetName());
    target.names.push_back(first);
    if (with_attribute && !brackets && stream_.SkipOperator(".")) {
      if (!stream_.Is(TokenKind::kName)) return stream_.Error("expected the name of an attribute");
      target.attribute = stream_.Take().text;
      return target;
    }
    while (stream_.SkipOperator(",")) {
      target.unpacks = true;
      if (stream_.IsName("in") || stream_.IsOperator("=") || stream_.IsOperator(")")) break;
      JINJA_ASSIGN_OR_RETURN(Symbol next, ParseTargetName());
      target.names.push_back(next);
    }
    if (brackets) JINJA_RETURN_IF_ERROR(stream_.ExpectOperator(")"));
    return target;
  }

  absl::Status ParseSet(Statement& statement) {
    JINJA_ASSIGN_OR_RETURN(Target target, ParseTarget(true));
    if (stream_.SkipOperator("=")) {
      JINJA_ASSIGN_OR_RETURN(ExpressionPtr value, expressions_.ParseTuple(true));
      statement.node = Set{std::move(target), std::move(value)};
      return stream_.Expect(TokenKind::kBlockEnd, "'%}'");
    }
    SetBlock node;
    node.target = std::move(target);
    while (stream_.SkipOperator("|")) {
      JINJA_ASSIGN_OR_RETURN(ExpressionPtr filter, expressions_.ParseFilter(nullptr));
      node.filters.push_back(std::move(filter));
    }
    JINJA_RETURN_IF_ERROR(ParseBodyAndEnd(node.body, "endset"));
    statement.node = std::move(node);
    return absl::OkStatus();
  }

  absl::Status ParseParameters(Parameters& parameters) {
    JINJA_RETURN_IF_ERROR(stream_.ExpectOperator("("));
    while (!stream_.IsOperator(")")) {
      if (!parameters.names.empty()) JINJA_RETURN_IF_ERROR(stream_.ExpectOperator(","));
      if (stream_.IsOperator(")")) break;
      JINJA_ASSIGN_OR_RETURN(Symbol name, ParseTargetName());
      parameters.names.push_back(name);
      if (stream_.SkipOperator("=")) {
        JINJA_ASSIGN_OR_RETURN(ExpressionPtr value, expressions_.ParseExpression());
        parameters.defaults.push_back(std::move(value));
      } else if (!parameters.defaults.empty()) {
        return stream_.Error("a parameter without a default after one with a default");
      }
    }
    return stream_.ExpectOperator(")");
  }

  // Body and end of a macro; loops outside it are out of reach of its break.
  absl::Status ParseMacroBody(MacroDefinition& macro, std::size_t mark, std::string_view end) {
    int loops = std::exchange(loops_, 0);
    JINJA_RETURN_IF_ERROR(ParseBodyAndEnd(macro.body, end));
    loops_ = loops;
    macro.uses_varargs = expressions_.ReadSince(mark, kVarargsSymbol);
    macro.uses_kwargs = expressions_.ReadSince(mark, kKwargsSymbol);
    macro.uses_caller = expressions_.ReadSince(mark, kCallerSymbol);
    return absl::OkStatus();
  }

  absl::Status ParseMacro(Statement& statement) {
    auto macro = std::make_shared<MacroDefinition>();
    macro->name = stream_.current().text;
    JINJA_ASSIGN_OR_RETURN(macro->symbol, ParseTargetName());
    std::size_t mark = expressions_.Mark();
    JINJA_RETURN_IF_ERROR(ParseParameters(macro->parameters));
    JINJA_RETURN_IF_ERROR(ParseMacroBody(*macro, mark, "endmacro"));
    statement.node = DefineMacro{std::move(macro)};
    return absl::OkStatus();
  }

  absl::Status ParseCallBlock(Statement& statement) {
    auto caller = std::make_shared<MacroDefinition>();
    caller->name = "caller";
    caller->symbol = kCallerSymbol;
    if (stream_.IsOperator("(")) JINJA_RETURN_IF_ERROR(ParseParameters(caller->parameters));
    CallBlock node;
    JINJA_ASSIGN_OR_RETURN(node.call, expressions_.ParseExpression());
    if (!std::holds_alternative<Call>(node.call->node)) return stream_.Error("expected a call");
    std::size_t mark = expressions_.Mark();
    JINJA_RETURN_IF_ERROR(ParseMacroBody(*caller, mark, "endcall"));
    node.caller = std::move(caller);
    statement.node = std::move(node);
    return absl::OkStatus();
  }

  absl::Status ParseFilterBlock(Statement& statement) {
    FilterBlock node;
    do {
      JINJA_ASSIGN_OR_RETURN(ExpressionPtr filter, expressions_.ParseFilter(nullptr));
      node.filters.push_back(std::move(filter));
    } while (stream_.SkipOperator("|"));
    JINJA_RETURN_IF_ERROR(ParseBodyAndEnd(node.body, "endfilter"));
    statement.node = std::move(node);
    return absl::OkStatus();
  }

  absl::Status ParseWith(Statement& statement) {
    With node;
    while (!stream_.Is(TokenKind::kBlockEnd)) {
      if (!node.assignments.empty()) JINJA_RETURN_IF_ERROR(stream_.ExpectOperator(","));
      Target target;
      JINJA_ASSIGN_OR_RETURN(Symbol name, ParseTargetName());
      target.names.push_back(name);
      JINJA_RETURN_IF_ERROR(stream_.ExpectOperator("="));
      JINJA_ASSIGN_OR_RETURN(ExpressionPtr value, expressions_.ParseExpression());
      node.assignments.emplace_back(std::move(target), std::move(value));
    }
    JINJA_RETURN_IF_ERROR(ParseBodyAndEnd(node.body, "endwith"));
    statement.node = std::move(node);
    return absl::OkStatus();
  }

  absl::Status ParseGeneration(Statement& statement) {
    Scoped node;
    int loops = std::exchange(loops_, 0);
    JINJA_RETURN_IF_ERROR(ParseBodyAndEnd(node.body, "endgeneration"));
    loops_ = loops;
    statement.node = std::move(node);
    return absl::OkStatus();
  }

  absl::Status ParseBreak(Statement& statement) { return ParseJump(statement, Break{}, "break"); }
  absl::Status ParseContinue(Statement& statement) {
    return ParseJump(statement, Continue{}, "continue");
  }
  template <typename Node>
  absl::Status ParseJump(Statement& statement, Node node, std::string_view word) {
    if (loops_ == 0) {
      return stream_.Error(absl::StrCat("{% ", std::string(word), " %} outside a for statement"));
    }
    statement.node = node;
    return stream_.Expect(TokenKind::kBlockEnd, "'%}'");
  }

  TokenStream stream_;
  ExpressionParser expressions_;
  int nesting_ = 0;
  int loops_ = 0;  // for statements around this place
  bool walks_content_ = false;
};

}  // namespace

absl::StatusOr<Template> Parse(std::string_view source) {
  JINJA_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return Parser(std::move(tokens)).Run();
}

}  // namespace thresher::jinja
