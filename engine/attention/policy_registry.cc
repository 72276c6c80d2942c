// The policies this build has: an explicit list, one row each.
#include "absl/strings/str_cat.h"
#include "engine/attention/attention_choice.h"
#include "engine/attention/attention_policy.h"
#include "engine/attention/policies/dense.h"
#include "engine/request_error.h"
#include "engine/text/excerpt.h"

namespace thresher {
namespace {

const PolicyDescription kPolicies[] = {
    {.name = "dense",
     .prefill = true,
     .decode = true,
     .parameters = {},
     .help = "Every query reads every cached position."},
};

// In the order of kPolicies.
using CreatePolicy = std::unique_ptr<AttentionPolicy> (*)();
constexpr CreatePolicy kCreators[] = {CreateDensePolicy};
static_assert(std::size(kPolicies) == std::size(kCreators));

absl::Status ValidatePhase(const PolicyChoice& choice, bool decode) {
  const char* phase = decode ? "decode" : "prefill";
  std::string allowed;
  for (const PolicyDescription& policy : kPolicies) {
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

}  // namespace

std::span<const PolicyDescription> AttentionPolicies() { return kPolicies; }

int FindAttentionPolicy(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kPolicies); ++i) {
    if (kPolicies[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

std::unique_ptr<AttentionPolicy> CreateAttentionPolicy(int policy_index) {
  return kCreators[policy_index]();
}

absl::Status ValidateAttentionChoice(const AttentionChoice& choice) {
  if (absl::Status status = ValidatePhase(choice.prefill, false); !status.ok()) return status;
  return ValidatePhase(choice.decode, true);
}

}  // namespace thresher
