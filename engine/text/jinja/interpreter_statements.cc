// How each kind of statement is run.
#include <utility>

#include "engine/text/jinja/builtins.h"
#include "engine/text/jinja/error.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher::jinja {

struct Interpreter::Execute {
  Interpreter& self;

  using Result = absl::StatusOr<Flow>;

  Result operator()(const Data& node) {
    JINJA_RETURN_IF_ERROR(self.Write(node.text));
    return Flow::kNext;
  }

  Result operator()(const Print& node) {
    JINJA_ASSIGN_OR_RETURN(Value value, self.Eval(*node.value));
    if (value.is_string()) {
      JINJA_RETURN_IF_ERROR(self.Write(value.text()));
    } else {
      JINJA_ASSIGN_OR_RETURN(std::string text, self.Str(value));
      JINJA_RETURN_IF_ERROR(self.Write(text));
    }
    return Flow::kNext;
  }

  Result operator()(const If& node) {
    for (const auto& [condition, body] : node.branches) {
      JINJA_ASSIGN_OR_RETURN(Value value, self.Eval(*condition));
      if (Truth(value)) return self.Exec(body);
    }
    return self.Exec(node.otherwise);
  }

  // The items that the loop walks: those that pass its condition, which sees no `loop`.
  absl::StatusOr<std::vector<Value>> Filtered(const For& node) {
    JINJA_ASSIGN_OR_RETURN(Value iterable, self.Eval(*node.iterable));
    JINJA_ASSIGN_OR_RETURN(std::vector<Value> items, self.Items(iterable));
    if (node.condition == nullptr) return items;
    std::vector<Value> kept;
    for (Value& item : items) {
      ScopedBlock block(self);
      self.scope_->Set(kLoopSymbol, Value::Undefined("'loop' is undefined"));
      JINJA_RETURN_IF_ERROR(self.Assign(node.target, item));
      JINJA_ASSIGN_OR_RETURN(Value condition, self.Eval(*node.condition));
      if (Truth(condition)) kept.push_back(std::move(item));
    }
    return kept;
  }

  Result operator()(const For& node) {
    JINJA_ASSIGN_OR_RETURN(std::vector<Value> items, Filtered(node));
    const std::size_t num_items = items.size();
    JINJA_ASSIGN_OR_RETURN(Value walked, MakeSequence(SequenceKind::kTuple, std::move(items)));
    auto loop = std::make_shared<LoopObject>();
    loop->items = walked.sequence_ptr();
    // Jinja runs the else branch unless some pass came to the end of the body: a loop that breaks
    // or continues in every pass counts as one without items.
    bool completed = false;
    for (std::size_t i = 0; i < num_items; ++i) {
      JINJA_RETURN_IF_ERROR(self.budget_.Step());
      loop->index = i;
      ScopedBlock block(self);
      self.scope_->Set(kLoopSymbol, Value::Of(loop));
      JINJA_RETURN_IF_ERROR(self.Assign(node.target, loop->items->items[i]));
      absl::StatusOr<Flow> flow = self.Exec(node.body);
      if (!flow.ok()) return flow.status();
      if (*flow == Flow::kBreak) break;
      completed = completed || *flow == Flow::kNext;
    }
    if (completed) return Flow::kNext;
    ScopedBlock block(self);
    return self.Exec(node.otherwise);
  }

  Result operator()(const jinja::Set& node) {
    JINJA_ASSIGN_OR_RETURN(Value value, self.Eval(*node.value));
    JINJA_RETURN_IF_ERROR(self.Assign(node.target, std::move(value)));
    return Flow::kNext;
  }

  Result operator()(const SetBlock& node) {
    std::string text;
    JINJA_ASSIGN_OR_RETURN(Flow flow, self.Capture(node.body, text));
    if (flow != Flow::kNext) return flow;
    JINJA_ASSIGN_OR_RETURN(Value value,
                           self.ApplyFilters(node.filters, Value::String(std::move(text))));
    JINJA_RETURN_IF_ERROR(self.Assign(node.target, std::move(value)));
    return Flow::kNext;
  }

  Result operator()(const DefineMacro& node) {
    self.scope_->Set(node.macro->symbol, self.NewMacro(node.macro));
    return Flow::kNext;
  }

  Result operator()(const CallBlock& node) {
    const auto& call = std::get<jinja::Call>(node.call->node);
    JINJA_ASSIGN_OR_RETURN(Value callee, self.Eval(*call.callee));
    JINJA_ASSIGN_OR_RETURN(Arguments arguments, self.EvalArguments(call.arguments));
    arguments.named.emplace_back("caller", self.NewMacro(node.caller));
    JINJA_ASSIGN_OR_RETURN(Value value, self.CallValue(callee, arguments));
    JINJA_ASSIGN_OR_RETURN(std::string text, self.Str(value));
    JINJA_RETURN_IF_ERROR(self.Write(text));
    return Flow::kNext;
  }

  Result operator()(const FilterBlock& node) {
    std::string text;
    JINJA_ASSIGN_OR_RETURN(Flow flow, self.Capture(node.body, text));
    if (flow != Flow::kNext) return flow;
    JINJA_ASSIGN_OR_RETURN(Value value,
                           self.ApplyFilters(node.filters, Value::String(std::move(text))));
    JINJA_ASSIGN_OR_RETURN(std::string shown, self.Str(value));
    JINJA_RETURN_IF_ERROR(self.Write(shown));
    return Flow::kNext;
  }

  Result operator()(const With& node) {
    // All values are evaluated outside the new scope.
    std::vector<Value> values;
    for (const auto& [target, expression] : node.assignments) {
      JINJA_ASSIGN_OR_RETURN(Value value, self.Eval(*expression));
      values.push_back(std::move(value));
    }
    ScopedBlock block(self);
    for (std::size_t i = 0; i < values.size(); ++i) {
      JINJA_RETURN_IF_ERROR(self.Assign(node.assignments[i].first, std::move(values[i])));
    }
    return self.Exec(node.body);
  }

  Result operator()(const Scoped& node) {
    ScopedBlock block(self);
    return self.Exec(node.body);
  }

  Result operator()(const Break&) { return Flow::kBreak; }
  Result operator()(const Continue&) { return Flow::kContinue; }
};

absl::StatusOr<Interpreter::Flow> Interpreter::Exec(const Block& block) {
  for (const Statement& statement : block) {
    JINJA_ASSIGN_OR_RETURN(Flow flow, ExecOne(statement));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

absl::StatusOr<Interpreter::Flow> Interpreter::ExecOne(const Statement& statement) {
  JINJA_RETURN_IF_ERROR(budget_.Step());
  JINJA_RETURN_IF_ERROR(budget_.Enter());
  absl::StatusOr<Flow> flow = std::visit(Execute{*this}, statement.node);
  budget_.Leave();
  if (!flow.ok()) return AtLine(std::move(flow).status(), statement.line);
  return flow;
}

absl::StatusOr<Interpreter::Flow> Interpreter::Capture(const Block& block, std::string& text) {
  ScopedBlock scope(*this);
  std::string* outer = std::exchange(output_, &text);
  absl::StatusOr<Flow> flow = Exec(block);
  output_ = outer;
  return flow;
}

absl::Status Interpreter::Assign(const Target& target, Value value) {
  if (!target.attribute.empty()) {
    Value space = NameValue(target.names[0]);
    if (!space.is(Kind::kNamespace)) {
      return Failure("cannot assign attribute '", target.attribute,
                     "' on a value that is no namespace");
    }
    if (target.attribute[0] == '_') {
      return Failure("a namespace cannot hold '", target.attribute, "': it starts with '_'");
    }
    space.space().attributes.Set(target.attribute, std::move(value));
    return absl::OkStatus();
  }
  if (!target.unpacks) {
    scope_->Set(target.names[0], std::move(value));
    return absl::OkStatus();
  }
  if (value.is_undefined()) return Failure(value.why());
  JINJA_ASSIGN_OR_RETURN(std::vector<Value> items, Items(value));
  if (items.size() != target.names.size()) {
    return Failure(items.size() < target.names.size() ? "not enough" : "too many",
                   " values to unpack (expected ", target.names.size(), ", got ", items.size(),
                   ")");
  }
  for (std::size_t i = 0; i < items.size(); ++i) scope_->Set(target.names[i], std::move(items[i]));
  return absl::OkStatus();
}

}  // namespace thresher::jinja
