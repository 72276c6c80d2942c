// Python's operators over values.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "engine/text/jinja/ast.h"
#include "engine/text/jinja/budget.h"
#include "engine/text/jinja/value.h"

namespace thresher::jinja {

// InvalidArgument for types that do not go together, division by zero, an integer past 64 bits.
absl::StatusOr<Value> Apply(Budget& budget, BinaryOperator op, const Value& left,
                            const Value& right);
absl::StatusOr<Value> Apply(UnaryOperator op, const Value& operand);
absl::StatusOr<bool> Holds(Budget& budget, Comparison comparison, const Value& left,
                           const Value& right);
// `item in container`.
absl::StatusOr<bool> Contains(Budget& budget, const Value& container, const Value& item);

// object[start:stop:step]; undefined stands for a part left out.
absl::StatusOr<Value> Slice(Budget& budget, const Value& object, const Value& start,
                            const Value& stop, const Value& step);

// `format % values`: %s %r %d %i %u %x %X %o %f %F %e %E %g %G %c %%, with flags, width and
// precision. InvalidArgument for others.
absl::StatusOr<std::string> FormatPercent(Budget& budget, const std::string& format,
                                          const Value& values);

}  // namespace thresher::jinja
