// The policies this build has: an explicit list, one row each.
#include <bit>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "engine/attention/policies/policies.h"
#include "engine/attention/policy_kind.h"
#include "engine/request_error.h"
#include "engine/text/excerpt.h"

namespace thresher {
namespace {

// Those that only evaluate come last.
const PolicyKind* const kKinds[] = {
    &DensePolicyKind(),     &TopThetaPolicyKind(),   &StemPolicyKind(),   &UniformPolicyKind(),
    &StreamingPolicyKind(), &XAttentionPolicyKind(), &OraclePolicyKind(), &RandomPolicyKind(),
    &IntervalPolicyKind(),  &TopKPolicyKind(),       &QuestPolicyKind(),
};

std::vector<PolicyDescription> DescribeRequestable() {
  std::vector<PolicyDescription> descriptions;
  for (const PolicyKind* kind : kKinds) {
    if (!kind->evaluates_only()) descriptions.push_back(kind->description());
  }
  return descriptions;
}

const std::vector<PolicyDescription> kRequestable = DescribeRequestable();

}  // namespace

std::span<const PolicyKind* const> PolicyKinds() { return kKinds; }

int FindPolicyKind(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kKinds); ++i) {
    if (kKinds[i]->description().name == name) return static_cast<int>(i);
  }
  return -1;
}

std::uint64_t PolicySalt(std::string_view name, std::span<const double> numbers) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio
  std::uint64_t hash = name.size() + 1;
  const auto mix = [&hash](std::uint64_t value) {
    hash = (hash ^ value) * kOdd;
    hash ^= hash >> 29;
  };
  for (const char letter : name) mix(static_cast<unsigned char>(letter));
  for (const double number : numbers) mix(std::bit_cast<std::uint64_t>(number));
  mix(numbers.size());
  return hash == 0 ? 1 : hash;
}

std::span<const PolicyDescription> AttentionPolicies() { return kRequestable; }

absl::Status ValidatePolicyChoice(const PolicyChoice& choice, bool decode,
                                  std::span<const PolicyDescription> policies) {
  const char* phase = decode ? "decode" : "prefill";
  std::string allowed;
  for (const PolicyDescription& policy : policies) {
    if (!(decode ? policy.decode : policy.prefill)) continue;
    if (policy.name != choice.policy) {
      absl::StrAppend(&allowed, allowed.empty() ? "" : ", ", policy.name);
      continue;
    }
    for (const auto& [name, value] : choice.parameters) {
      const PolicyParameter* found = nullptr;
      for (const PolicyParameter& parameter : policy.parameters) {
        if (parameter.name == name) found = &parameter;
      }
      if (found == nullptr) {
        return FieldError(absl::StrCat("attention.", phase, ".", Excerpt(name)),
                          absl::StrCat("is not a parameter of policy ", policy.name));
      }
      // Written so that NaN fails.
      if (!(value >= found->minimum && value <= found->maximum) ||
          (found->integer && value != static_cast<double>(static_cast<std::int64_t>(value)))) {
        return FieldError(
            absl::StrCat("attention.", phase, ".", name),
            absl::StrCat("is ", value, "; it must be ", found->integer ? "a whole number " : "",
                         "from ", found->minimum, " to ", found->maximum));
      }
    }
    return absl::OkStatus();
  }
  return FieldError(absl::StrCat("attention.", phase, ".policy"),
                    absl::StrCat("is '", Excerpt(choice.policy), "'; this server has: ", allowed));
}

absl::Status ValidateAttentionChoice(const AttentionChoice& choice) {
  if (absl::Status status = ValidatePolicyChoice(choice.prefill, false, kRequestable);
      !status.ok()) {
    return status;
  }
  return ValidatePolicyChoice(choice.decode, true, kRequestable);
}

}  // namespace thresher
