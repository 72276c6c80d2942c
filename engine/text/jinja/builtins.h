// The filters, tests, functions and methods of the subset, by name. Explicit tables: what is not in
// them is refused when the template is parsed.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/text/jinja/arguments.h"
#include "engine/text/jinja/value.h"

namespace thresher::jinja {

class Interpreter;

using FilterCode = absl::StatusOr<Value> (*)(Interpreter&, const Value& input, const Arguments&);
using TestCode = absl::StatusOr<bool> (*)(Interpreter&, const Value& input, const Arguments&);
using FunctionCode = absl::StatusOr<Value> (*)(Interpreter&, const Arguments&);

struct FilterRow {
  std::string_view name;
  FilterCode code;
};
struct TestRow {
  std::string_view name;
  TestCode code;
};
struct Function {
  std::string_view name;
  FunctionCode code;
};

absl::Span<const FilterRow> TextFilters();
absl::Span<const FilterRow> NumberFilters();
absl::Span<const FilterRow> SequenceFilters();
absl::Span<const FilterRow> SelectionFilters();
absl::Span<const FilterRow> JsonFilters();
absl::Span<const TestRow> Tests();
absl::Span<const Function> Functions();

// Null if the subset has none of that name.
const FilterRow* FindFilter(std::string_view name);
const TestRow* FindTest(std::string_view name);
const Function* FindFunction(std::string_view name);

// Functions of Jinja's own that the subset lacks, and methods of Python's types that it lacks: a
// template that calls one is refused when it is parsed.
bool IsMissingFunction(std::string_view name);
bool IsMissingMethod(std::string_view name);

// Calls a method that GetAttribute bound.
absl::StatusOr<Value> CallMethod(Interpreter& interpreter, const MethodObject& method,
                                 const Arguments& arguments);

}  // namespace thresher::jinja
