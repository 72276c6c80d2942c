// Source text to a Template.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/text/jinja/ast.h"

namespace thresher::jinja {

// Statements or brackets inside each other, and the height of an expression: more is an error, so
// that neither parsing nor running exhausts the stack.
inline constexpr int kMaxNesting = 100;
inline constexpr int kMaxHeight = 200;

// InvalidArgument for a syntax error, Unimplemented for what the subset lacks; both say
// "line N: …" and name the construct.
absl::StatusOr<Template> Parse(std::string_view source);

}  // namespace thresher::jinja
