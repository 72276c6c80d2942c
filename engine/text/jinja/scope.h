// Variables of one block. A name is looked up from the innermost scope outwards and set in the
// innermost, as Jinja's compiled frames do.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine/text/jinja/ast.h"
#include "engine/text/jinja/value.h"

namespace thresher::jinja {

struct Scope {
  std::shared_ptr<Scope> parent;  // null for the outermost
  std::vector<std::pair<Symbol, Value>> variables;
  // Held by the interpreter until its end, since a macro refers to it.
  bool captured = false;

  const Value* Find(Symbol symbol) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
      for (const auto& [name, value] : scope->variables) {
        if (name == symbol) return &value;
      }
    }
    return nullptr;
  }

  void Set(Symbol symbol, Value value) {
    for (auto& [name, held] : variables) {
      if (name == symbol) {
        held = std::move(value);
        return;
      }
    }
    variables.emplace_back(symbol, std::move(value));
  }
};

// A macro, with the scope that it was defined in.
struct MacroObject {
  std::shared_ptr<const MacroDefinition> definition;
  std::shared_ptr<Scope> closure;
};

}  // namespace thresher::jinja
