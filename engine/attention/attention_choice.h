// What a request says about its attention, and how policies describe themselves.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace thresher {

struct PolicyChoice {
  std::string policy = "dense";
  std::vector<std::pair<std::string, double>> parameters;  // request keys only, e.g. {"k", 256}
};

struct AttentionChoice {
  std::string level = "off";  // a configured name, or "custom" if any field was given beside it
  PolicyChoice prefill;
  PolicyChoice decode;
};

struct PolicyParameter {
  std::string name;
  double minimum = 0, maximum = 0, default_value = 0;
  bool integer = false;
  std::string help;
};

struct PolicyDescription {
  std::string name;
  bool prefill = false;
  bool decode = false;
  std::vector<PolicyParameter> parameters = {};
  std::string help = {};
};

// Every policy that a request may name, in the order of policy_registry.cc, with the widest ranges
// of its parameters; AttentionCatalog knows what an engine can serve of them.
std::span<const PolicyDescription> AttentionPolicies();

// Names, parameters and ranges alone. FieldError naming the field ("attention.decode.policy"), the
// value, and what is allowed.
absl::Status ValidateAttentionChoice(const AttentionChoice& choice);
// One phase of it, against `policies`.
absl::Status ValidatePolicyChoice(const PolicyChoice& choice, bool decode,
                                  std::span<const PolicyDescription> policies);

}  // namespace thresher
