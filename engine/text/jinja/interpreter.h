// Runs one template once. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/text/jinja/arguments.h"
#include "engine/text/jinja/ast.h"
#include "engine/text/jinja/budget.h"
#include "engine/text/jinja/scope.h"
#include "engine/text/jinja/value.h"

namespace thresher::jinja {

struct Clock {
  absl::Time now;
  absl::TimeZone zone;
};

class Interpreter {
 public:
  // The template outlives the interpreter.
  Interpreter(const Template& parsed, const Limits& limits, const Clock& clock);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // The template's output over those variables. InvalidArgument: what raise_exception was given,
  // and nothing else; or "chat template, line N: …" for any other failure. Called once.
  absl::StatusOr<std::string> Run(std::vector<std::pair<std::string, Value>> variables);

  // For filters, tests and functions.
  Budget& budget() { return budget_; }
  const Clock& clock() const { return clock_; }
  absl::StatusOr<Value> CallValue(const Value& callee, const Arguments& arguments);
  // All items of what a for statement can walk; an iterator is used up. Charges a step for each.
  absl::StatusOr<std::vector<Value>> Items(const Value& iterable);
  // str(value), charged.
  absl::StatusOr<std::string> Str(const Value& value);
  // A string value of a text that was built, charged.
  absl::StatusOr<Value> NewText(std::string text, bool safe = false);
  // `object[key]` and `object.name`: Undefined if there is none.
  absl::StatusOr<Value> GetItem(const Value& object, const Value& key);
  absl::StatusOr<Value> GetAttribute(const Value& object, std::string_view name);
  Value NewNamespace(Dict attributes);
  // The message of a refusal of the template itself.
  absl::Status Raise(const std::string& message);

 private:
  enum class Flow { kNext, kBreak, kContinue };
  struct Evaluate;  // interpreter_expressions.cc: one case for each kind of expression
  struct Execute;   // interpreter_statements.cc: one case for each kind of statement

  absl::StatusOr<Value> Eval(const Expression& expression);
  absl::StatusOr<Arguments> EvalArguments(const CallArguments& arguments);
  absl::StatusOr<Value> ApplyFilters(const std::vector<ExpressionPtr>& filters, Value text);
  absl::StatusOr<Flow> Exec(const Block& block);
  absl::StatusOr<Flow> ExecOne(const Statement& statement);
  // The block's output as a text, in a scope of its own.
  absl::StatusOr<Flow> Capture(const Block& block, std::string& text);
  absl::Status Assign(const Target& target, Value value);
  absl::Status Write(std::string_view text);
  absl::StatusOr<Value> CallMacro(const MacroObject& macro, const Arguments& arguments);
  absl::Status BindParameters(const MacroDefinition& macro, const Arguments& arguments);
  Value NewMacro(std::shared_ptr<const MacroDefinition> definition);
  Value NameValue(Symbol symbol) const;
  absl::Status AtLine(absl::Status status, int line);

  const Template& template_;
  Budget budget_;
  const Clock clock_;
  std::shared_ptr<Scope> scope_;
  std::string* output_ = nullptr;  // where Print and Data go
  bool raised_ = false;
  bool has_line_ = false;
  // What can refer to itself, emptied at the end so that it is freed.
  std::vector<std::shared_ptr<NamespaceObject>> namespaces_;
  std::vector<std::shared_ptr<Scope>> captured_scopes_;

  friend class ScopedBlock;
};

// A scope inside the current one for as long as it lives.
class ScopedBlock {
 public:
  ScopedBlock(Interpreter& interpreter, std::shared_ptr<Scope> parent);
  explicit ScopedBlock(Interpreter& interpreter);
  ~ScopedBlock();
  ScopedBlock(const ScopedBlock&) = delete;
  ScopedBlock& operator=(const ScopedBlock&) = delete;

 private:
  Interpreter& interpreter_;
  std::shared_ptr<Scope> outer_;
};

}  // namespace thresher::jinja
