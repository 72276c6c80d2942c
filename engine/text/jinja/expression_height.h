// The height of an expression's tree.
#pragma once

#include "engine/text/jinja/ast.h"

namespace thresher::jinja {

// The greatest height among the expressions right below; 0 for a leaf.
int TallestChild(const Expression& expression);

}  // namespace thresher::jinja
