#include "engine/text/jinja/interpreter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/text/jinja/builtins.h"
#include "engine/text/jinja/error.h"
#include "engine/text/jinja/print.h"
#include "engine/text/jinja/python_text.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher::jinja {

ScopedBlock::ScopedBlock(Interpreter& interpreter, std::shared_ptr<Scope> parent)
    : interpreter_(interpreter), outer_(interpreter.scope_) {
  auto scope = std::make_shared<Scope>();
  scope->parent = std::move(parent);
  interpreter_.scope_ = std::move(scope);
}

ScopedBlock::ScopedBlock(Interpreter& interpreter) : ScopedBlock(interpreter, interpreter.scope_) {}

ScopedBlock::~ScopedBlock() { interpreter_.scope_ = std::move(outer_); }

Interpreter::Interpreter(const Template& parsed, const Limits& limits, const Clock& clock)
    : template_(parsed), budget_(limits), clock_(clock), scope_(std::make_shared<Scope>()) {}

Interpreter::~Interpreter() {
  // Scopes and namespaces may hold each other in circles and in long chains. Emptied one by one
  // while all are held here, none is destroyed inside another.
  for (const auto& scope : captured_scopes_) scope->variables.clear();
  for (const auto& space : namespaces_) space->attributes = Dict();
}

absl::StatusOr<std::string> Interpreter::Run(std::vector<std::pair<std::string, Value>> variables) {
  for (std::size_t symbol = 0; symbol < template_.symbols.size(); ++symbol) {
    for (auto& [name, value] : variables) {
      if (name == template_.symbols[symbol]) scope_->Set(static_cast<Symbol>(symbol), value);
    }
  }
  // What the template itself sets is one scope further in: a macro sees both.
  ScopedBlock block(*this);
  std::string output;
  output_ = &output;
  absl::StatusOr<Flow> flow = Exec(template_.body);
  if (flow.ok()) return output;
  if (raised_) return flow.status();
  return Failure("chat template, ", flow.status().message());
}

absl::Status Interpreter::Raise(const std::string& message) {
  raised_ = true;
  return absl::InvalidArgumentError(message);
}

absl::Status Interpreter::AtLine(absl::Status status, int line) {
  if (raised_ || has_line_) return status;
  has_line_ = true;
  return Failure("line ", line, ": ", status.message());
}

Value Interpreter::NameValue(Symbol symbol) const {
  if (const Value* value = scope_->Find(symbol); value != nullptr) return *value;
  const std::string& name = template_.symbols[symbol];
  if (const Function* function = FindFunction(name); function != nullptr) {
    return Value::Of(function);
  }
  return Value::Undefined(absl::StrCat("'", name, "' is undefined"));
}

Value Interpreter::NewNamespace(Dict attributes) {
  auto space = std::make_shared<NamespaceObject>();
  space->attributes = std::move(attributes);
  namespaces_.push_back(space);
  return Value::Of(std::move(space));
}

Value Interpreter::NewMacro(std::shared_ptr<const MacroDefinition> definition) {
  for (std::shared_ptr<Scope> scope = scope_; scope != nullptr && !scope->captured;
       scope = scope->parent) {
    scope->captured = true;
    captured_scopes_.push_back(scope);
  }
  auto macro = std::make_shared<MacroObject>();
  macro->definition = std::move(definition);
  macro->closure = scope_;
  return Value::Of(std::shared_ptr<const MacroObject>(std::move(macro)));
}

absl::Status Interpreter::Write(std::string_view text) {
  JINJA_RETURN_IF_ERROR(budget_.Text(static_cast<std::int64_t>(text.size())));
  if (output_->size() + text.size() > static_cast<std::size_t>(budget_.limits().max_text_bytes)) {
    return Failure("the output is over the limit of ", budget_.limits().max_text_bytes, " bytes");
  }
  output_->append(text);
  return absl::OkStatus();
}

absl::StatusOr<std::string> Interpreter::Str(const Value& value) {
  std::string text;
  JINJA_RETURN_IF_ERROR(AppendStr(budget_, value, text));
  return text;
}

absl::StatusOr<Value> Interpreter::NewText(std::string text, bool safe) {
  JINJA_RETURN_IF_ERROR(budget_.Text(static_cast<std::int64_t>(text.size())));
  return Value::String(std::move(text), safe);
}

absl::StatusOr<std::vector<Value>> Interpreter::Items(const Value& iterable) {
  std::vector<Value> items;
  switch (iterable.kind()) {
    case Kind::kUndefined:
      return items;
    case Kind::kString: {
      const std::string& text = iterable.text();
      JINJA_RETURN_IF_ERROR(budget_.Step(static_cast<std::int64_t>(text.size())));
      for (std::size_t position = 0; position < text.size();) {
        std::size_t start = position;
        NextCodePoint(text, position);
        items.push_back(Value::String(text.substr(start, position - start)));
      }
      return items;
    }
    case Kind::kDict:
      JINJA_RETURN_IF_ERROR(budget_.Step(static_cast<std::int64_t>(iterable.dict().size())));
      for (const auto& [key, value] : iterable.dict().entries()) items.push_back(key);
      return items;
    case Kind::kSequence: {
      Sequence& sequence = iterable.sequence();
      JINJA_RETURN_IF_ERROR(budget_.Step(static_cast<std::int64_t>(sequence.items.size())));
      items.assign(sequence.items.begin() + static_cast<std::ptrdiff_t>(sequence.consumed),
                   sequence.items.end());
      if (sequence.kind == SequenceKind::kIterator) sequence.consumed = sequence.items.size();
      JINJA_RETURN_IF_ERROR(sequence.failure);
      return items;
    }
    default:
      return Failure("'", TypeName(iterable), "' object is not iterable");
  }
}

absl::StatusOr<Value> Interpreter::CallValue(const Value& callee, const Arguments& arguments) {
  switch (callee.kind()) {
    case Kind::kFunction:
      return callee.function().code(*this, arguments);
    case Kind::kMethod:
      return CallMethod(*this, callee.method(), arguments);
    case Kind::kMacro:
      return CallMacro(*callee.macro(), arguments);
    case Kind::kUndefined:
      return Failure(callee.why().empty() ? "an undefined value is called" : callee.why());
    default:
      return Failure("'", TypeName(callee), "' object is not callable");
  }
}

absl::Status Interpreter::BindParameters(const MacroDefinition& macro, const Arguments& arguments) {
  const Parameters& parameters = macro.parameters;
  const std::size_t num_parameters = parameters.names.size();
  const std::size_t num_positional = arguments.positional.size();
  if (num_positional > num_parameters && !macro.uses_varargs) {
    return Failure("macro '", macro.name, "' takes not more than ", num_parameters, " argument(s)");
  }
  std::vector<bool> given(num_parameters);
  for (std::size_t i = 0; i < num_parameters && i < num_positional; ++i) {
    scope_->Set(parameters.names[i], arguments.positional[i]);
    given[i] = true;
  }
  Dict others;
  for (const auto& [name, value] : arguments.named) {
    std::size_t i = 0;
    while (i < num_parameters && template_.symbols[parameters.names[i]] != name) ++i;
    if (i < num_parameters) {
      if (given[i]) return Failure("macro '", macro.name, "' got '", name, "' twice");
      scope_->Set(parameters.names[i], value);
      given[i] = true;
    } else if (name == "caller" && macro.uses_caller) {
      scope_->Set(kCallerSymbol, value);
    } else if (macro.uses_kwargs) {
      JINJA_RETURN_IF_ERROR(others.Set(Value::String(name), value));
    } else {
      return Failure("macro '", macro.name, "' takes no keyword argument '", name, "'");
    }
  }
  // A default is evaluated at the call, with the parameters before it in sight.
  const std::size_t first_default = num_parameters - parameters.defaults.size();
  for (std::size_t i = 0; i < num_parameters; ++i) {
    if (given[i]) continue;
    Value value = Value::Undefined(
        absl::StrCat("parameter '", template_.symbols[parameters.names[i]], "' was not provided"));
    if (i >= first_default) {
      JINJA_ASSIGN_OR_RETURN(value, Eval(*parameters.defaults[i - first_default]));
    }
    scope_->Set(parameters.names[i], std::move(value));
  }
  if (macro.uses_varargs) {
    std::vector<Value> rest;
    for (std::size_t i = num_parameters; i < num_positional; ++i) {
      rest.push_back(arguments.positional[i]);
    }
    JINJA_ASSIGN_OR_RETURN(Value sequence, MakeSequence(SequenceKind::kTuple, std::move(rest)));
    scope_->Set(kVarargsSymbol, std::move(sequence));
  }
  if (macro.uses_kwargs) {
    scope_->Set(kKwargsSymbol, Value::Of(std::make_shared<const Dict>(std::move(others))));
  }
  if (macro.uses_caller &&
      scope_->variables.end() ==
          std::find_if(scope_->variables.begin(), scope_->variables.end(),
                       [](const auto& variable) { return variable.first == kCallerSymbol; })) {
    scope_->Set(kCallerSymbol, Value::Undefined("No caller defined"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Interpreter::CallMacro(const MacroObject& macro, const Arguments& arguments) {
  // Held here: the macro's own name may be set to something else while it runs.
  std::shared_ptr<const MacroDefinition> definition = macro.definition;
  ScopedBlock block(*this, macro.closure);
  JINJA_RETURN_IF_ERROR(BindParameters(*definition, arguments));
  std::string text;
  std::string* outer = std::exchange(output_, &text);
  absl::StatusOr<Flow> flow = Exec(definition->body);
  output_ = outer;
  if (!flow.ok()) return flow.status();
  return Value::String(std::move(text));
}

}  // namespace thresher::jinja
