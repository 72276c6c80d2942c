// The arguments of one call, and their matching to parameters.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/text/jinja/value.h"

namespace thresher::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Arguments by parameter. Reading one that was not given returns the fallback.
class Bound {
 public:
  // InvalidArgument, naming `callee`, for too many arguments, an unknown name, one given twice, or
  // fewer than `num_required`.
  static absl::StatusOr<Bound> Bind(std::string_view callee, const Arguments& arguments,
                                    std::initializer_list<std::string_view> parameters,
                                    int num_required);

  bool Has(int index) const { return given_[index]; }
  const Value& operator[](int index) const { return values_[index]; }
  bool Flag(int index, bool fallback) const;
  // InvalidArgument if it was given and is no string, or no integer.
  absl::StatusOr<std::string> Text(int index, std::string_view fallback) const;
  absl::StatusOr<std::int64_t> Integer(int index, std::int64_t fallback) const;

 private:
  std::string callee_;
  std::vector<std::string_view> parameters_;
  std::vector<Value> values_;
  std::vector<bool> given_;
};

}  // namespace thresher::jinja
