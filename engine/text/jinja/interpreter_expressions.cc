// How each kind of expression is evaluated.
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/text/jinja/builtins.h"
#include "engine/text/jinja/error.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher::jinja {

struct Interpreter::Evaluate {
  Interpreter& self;

  using Result = absl::StatusOr<Value>;

  Result operator()(const Literal& node) { return node.value; }
  Result operator()(const Name& node) { return self.NameValue(node.symbol); }

  Result operator()(const ListDisplay& node) {
    std::vector<Value> items;
    items.reserve(node.items.size());
    for (const ExpressionPtr& item : node.items) {
      JINJA_ASSIGN_OR_RETURN(Value value, self.Eval(*item));
      items.push_back(std::move(value));
    }
    return MakeSequence(node.kind, std::move(items));
  }

  Result operator()(const DictDisplay& node) {
    auto dict = std::make_shared<Dict>();
    for (const auto& [key_node, value_node] : node.entries) {
      JINJA_ASSIGN_OR_RETURN(Value key, self.Eval(*key_node));
      JINJA_ASSIGN_OR_RETURN(Value value, self.Eval(*value_node));
      JINJA_RETURN_IF_ERROR(dict->Set(std::move(key), std::move(value)));
    }
    return Value::Of(std::shared_ptr<const Dict>(std::move(dict)));
  }

  Result operator()(const Attribute& node) {
    JINJA_ASSIGN_OR_RETURN(Value object, self.Eval(*node.object));
    return self.GetAttribute(object, node.name);
  }

  Result operator()(const Subscript& node) {
    JINJA_ASSIGN_OR_RETURN(Value object, self.Eval(*node.object));
    JINJA_ASSIGN_OR_RETURN(Value key, self.Eval(*node.key));
    return self.GetItem(object, key);
  }

  Result operator()(const SliceOf& node) {
    JINJA_ASSIGN_OR_RETURN(Value object, self.Eval(*node.object));
    Value parts[3];
    const ExpressionPtr* nodes[3] = {&node.start, &node.stop, &node.step};
    for (int i = 0; i < 3; ++i) {
      parts[i] = Value::None();
      if (*nodes[i] == nullptr) continue;
      JINJA_ASSIGN_OR_RETURN(parts[i], self.Eval(**nodes[i]));
    }
    return Slice(self.budget_, object, parts[0], parts[1], parts[2]);
  }

  Result operator()(const jinja::Call& node) {
    JINJA_ASSIGN_OR_RETURN(Value callee, self.Eval(*node.callee));
    JINJA_ASSIGN_OR_RETURN(Arguments arguments, self.EvalArguments(node.arguments));
    return self.CallValue(callee, arguments);
  }

  Result operator()(const Filter& node) {
    JINJA_ASSIGN_OR_RETURN(Value operand, self.Eval(*node.operand));
    JINJA_ASSIGN_OR_RETURN(Arguments arguments, self.EvalArguments(node.arguments));
    return node.row->code(self, operand, arguments);
  }

  Result operator()(const Test& node) {
    JINJA_ASSIGN_OR_RETURN(Value operand, self.Eval(*node.operand));
    JINJA_ASSIGN_OR_RETURN(Arguments arguments, self.EvalArguments(node.arguments));
    JINJA_ASSIGN_OR_RETURN(bool holds, node.row->code(self, operand, arguments));
    return Value::Bool(holds);
  }

  Result operator()(const Unary& node) {
    JINJA_ASSIGN_OR_RETURN(Value operand, self.Eval(*node.operand));
    return Apply(node.op, operand);
  }

  Result operator()(const Binary& node) {
    JINJA_ASSIGN_OR_RETURN(Value left, self.Eval(*node.left));
    JINJA_ASSIGN_OR_RETURN(Value right, self.Eval(*node.right));
    return Apply(self.budget_, node.op, left, right);
  }

  Result operator()(const Logical& node) {
    JINJA_ASSIGN_OR_RETURN(Value left, self.Eval(*node.left));
    if (Truth(left) != node.is_and) return left;
    return self.Eval(*node.right);
  }

  Result operator()(const Concatenation& node) {
    std::string text;
    for (const ExpressionPtr& part : node.parts) {
      JINJA_ASSIGN_OR_RETURN(Value value, self.Eval(*part));
      JINJA_ASSIGN_OR_RETURN(std::string shown, self.Str(value));
      JINJA_RETURN_IF_ERROR(
          self.budget_.Text(static_cast<std::int64_t>(text.size() + shown.size())));
      text += shown;
    }
    return Value::String(std::move(text));
  }

  Result operator()(const Compare& node) {
    JINJA_ASSIGN_OR_RETURN(Value left, self.Eval(*node.first));
    for (const auto& [comparison, operand] : node.rest) {
      JINJA_ASSIGN_OR_RETURN(Value right, self.Eval(*operand));
      JINJA_ASSIGN_OR_RETURN(bool holds, Holds(self.budget_, comparison, left, right));
      if (!holds) return Value::Bool(false);
      left = std::move(right);
    }
    return Value::Bool(true);
  }

  Result operator()(const Conditional& node) {
    JINJA_ASSIGN_OR_RETURN(Value condition, self.Eval(*node.condition));
    if (Truth(condition)) return self.Eval(*node.then);
    if (node.otherwise != nullptr) return self.Eval(*node.otherwise);
    return Value::Undefined("the inline if-expression evaluated to false and has no else");
  }
};

absl::StatusOr<Value> Interpreter::Eval(const Expression& expression) {
  JINJA_RETURN_IF_ERROR(budget_.Step());
  JINJA_RETURN_IF_ERROR(budget_.Enter());
  absl::StatusOr<Value> value = std::visit(Evaluate{*this}, expression.node);
  budget_.Leave();
  if (!value.ok()) return AtLine(std::move(value).status(), expression.line);
  return value;
}

absl::StatusOr<Arguments> Interpreter::EvalArguments(const CallArguments& arguments) {
  Arguments values;
  for (const ExpressionPtr& argument : arguments.positional) {
    JINJA_ASSIGN_OR_RETURN(Value value, Eval(*argument));
    values.positional.push_back(std::move(value));
  }
  for (const auto& [name, argument] : arguments.named) {
    JINJA_ASSIGN_OR_RETURN(Value value, Eval(*argument));
    values.named.emplace_back(name, std::move(value));
  }
  return values;
}

absl::StatusOr<Value> Interpreter::ApplyFilters(const std::vector<ExpressionPtr>& filters,
                                                Value text) {
  for (const ExpressionPtr& expression : filters) {
    const Filter& filter = std::get<Filter>(expression->node);
    JINJA_ASSIGN_OR_RETURN(Arguments arguments, EvalArguments(filter.arguments));
    JINJA_ASSIGN_OR_RETURN(text, filter.row->code(*this, text, arguments));
  }
  return text;
}

}  // namespace thresher::jinja
