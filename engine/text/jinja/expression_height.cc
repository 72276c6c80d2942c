#include "engine/text/jinja/expression_height.h"

#include <algorithm>

namespace thresher::jinja {
namespace {

struct Tallest {
  int height = 0;

  void See(const ExpressionPtr& child) {
    if (child != nullptr) height = std::max(height, child->height);
  }
  void See(const CallArguments& arguments) {
    for (const auto& child : arguments.positional) See(child);
    for (const auto& [name, child] : arguments.named) See(child);
  }

  void operator()(const Literal&) {}
  void operator()(const Name&) {}
  void operator()(const ListDisplay& node) {
    for (const auto& child : node.items) See(child);
  }
  void operator()(const DictDisplay& node) {
    for (const auto& [key, value] : node.entries) {
      See(key);
      See(value);
    }
  }
  void operator()(const Attribute& node) { See(node.object); }
  void operator()(const Subscript& node) {
    See(node.object);
    See(node.key);
  }
  void operator()(const SliceOf& node) {
    for (const auto* child : {&node.object, &node.start, &node.stop, &node.step}) See(*child);
  }
  void operator()(const Call& node) {
    See(node.callee);
    See(node.arguments);
  }
  void operator()(const Filter& node) {
    See(node.operand);
    See(node.arguments);
  }
  void operator()(const Test& node) {
    See(node.operand);
    See(node.arguments);
  }
  void operator()(const Unary& node) { See(node.operand); }
  void operator()(const Binary& node) {
    See(node.left);
    See(node.right);
  }
  void operator()(const Logical& node) {
    See(node.left);
    See(node.right);
  }
  void operator()(const Concatenation& node) {
    for (const auto& child : node.parts) See(child);
  }
  void operator()(const Compare& node) {
    See(node.first);
    for (const auto& [comparison, child] : node.rest) See(child);
  }
  void operator()(const Conditional& node) {
    for (const auto* child : {&node.condition, &node.then, &node.otherwise}) See(*child);
  }
};

}  // namespace

int TallestChild(const Expression& expression) {
  Tallest tallest;
  std::visit(tallest, expression.node);
  return tallest.height;
}

}  // namespace thresher::jinja
