#include "engine/text/jinja/arguments.h"

#include <algorithm>

#include "engine/text/jinja/error.h"

namespace thresher::jinja {

absl::StatusOr<Bound> Bound::Bind(std::string_view callee, const Arguments& arguments,
                                  std::initializer_list<std::string_view> parameters,
                                  int num_required) {
  Bound bound;
  bound.callee_ = std::string(callee);
  bound.parameters_ = parameters;
  bound.values_.resize(parameters.size());
  bound.given_.resize(parameters.size());
  if (arguments.positional.size() > parameters.size()) {
    return Failure(bound.callee_, "() takes at most ", parameters.size(), " arguments, not ",
                   arguments.positional.size());
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    bound.values_[i] = arguments.positional[i];
    bound.given_[i] = true;
  }
  for (const auto& [name, value] : arguments.named) {
    auto found = std::find(bound.parameters_.begin(), bound.parameters_.end(), name);
    if (found == bound.parameters_.end()) {
      return Failure(bound.callee_, "() has no parameter '", name, "'");
    }
    std::size_t index = found - bound.parameters_.begin();
    if (bound.given_[index]) return Failure(bound.callee_, "() got '", name, "' twice");
    bound.values_[index] = value;
    bound.given_[index] = true;
  }
  for (int i = 0; i < num_required; ++i) {
    if (!bound.given_[i]) {
      return Failure(bound.callee_, "() needs '", std::string(bound.parameters_[i]), "'");
    }
  }
  return bound;
}

bool Bound::Flag(int index, bool fallback) const {
  return given_[index] ? Truth(values_[index]) : fallback;
}

absl::StatusOr<std::string> Bound::Text(int index, std::string_view fallback) const {
  if (!given_[index]) return std::string(fallback);
  if (values_[index].is_string()) return values_[index].text();
  return Failure(callee_, "() needs a string for '", std::string(parameters_[index]), "', not '",
                 TypeName(values_[index]), "'");
}

absl::StatusOr<std::int64_t> Bound::Integer(int index, std::int64_t fallback) const {
  if (!given_[index]) return fallback;
  if (values_[index].is_integral()) return values_[index].integer();
  return Failure(callee_, "() needs an integer for '", std::string(parameters_[index]), "', not '",
                 TypeName(values_[index]), "'");
}

}  // namespace thresher::jinja
