#include "engine/attention/attention_catalog.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/attention/policy_kind.h"

namespace thresher {
namespace {

constexpr std::uint64_t kDecoded = 1;

// One span more; a span that says what the one before says is left out.
void AddSpan(const SaltSpan& span, std::vector<SaltSpan>& spans) {
  if (!spans.empty() && spans.back().first_token == span.first_token) spans.pop_back();
  if (!spans.empty() && spans.back().written == span.written &&
      spans.back().also_accepted == span.also_accepted) {
    return;
  }
  spans.push_back(span);
}

std::uint64_t Join(std::uint64_t first, std::uint64_t second) {
  const std::array<double, 4> halves = {
      static_cast<double>(first >> 32), static_cast<double>(first & 0xffffffffu),
      static_cast<double>(second >> 32), static_cast<double>(second & 0xffffffffu)};
  return PolicySalt("join", halves);
}

}  // namespace

AttentionCatalog::AttentionCatalog(AttentionSettings settings,
                                   std::unique_ptr<const ThresholdTable> table, DeviceKind device)
    : settings_(std::move(settings)), table_(std::move(table)), device_(device) {}

absl::StatusOr<std::unique_ptr<AttentionCatalog>> AttentionCatalog::Create(
    AttentionSettings settings, std::unique_ptr<const ThresholdTable> table, DeviceKind device) {
  if (absl::Status status = settings.Validate(); !status.ok()) return status;
  if (table != nullptr && !table->has_placement(settings.top_theta.placement)) {
    return absl::FailedPreconditionError(
        "the threshold table lacks the placement that top_theta is set to; calibrate again, or "
        "choose another placement");
  }
  return std::unique_ptr<AttentionCatalog>(
      new AttentionCatalog(std::move(settings), std::move(table), device));
}

int AttentionCatalog::longest_thresholded_row() const {
  constexpr int kNoLimit = std::numeric_limits<int>::max();
  if (table_ == nullptr || settings_.top_theta.max_length_factor == 0) return kNoLimit;
  const std::int64_t longest =
      std::int64_t{table_->max_length()} * settings_.top_theta.max_length_factor;
  return static_cast<int>(std::min<std::int64_t>(longest, kNoLimit));
}

PolicyDescription AttentionCatalog::DescriptionOf(int kind) const {
  const PolicyKind& policy = *PolicyKinds()[static_cast<std::size_t>(kind)];
  PolicyDescription description = policy.description();
  policy.Narrow(*this, description);
  return description;
}

std::vector<PolicyDescription> AttentionCatalog::Describe() const {
  std::vector<PolicyDescription> descriptions;
  const auto num_kinds = static_cast<int>(PolicyKinds().size());
  for (int kind = 0; kind < num_kinds; ++kind) {
    if (PolicyKinds()[static_cast<std::size_t>(kind)]->evaluates_only() &&
        !settings_.allows_evaluation_policies) {
      continue;
    }
    if (!CanCarryOut(kind)) continue;
    descriptions.push_back(DescriptionOf(kind));
  }
  return descriptions;
}

absl::Status AttentionCatalog::Validate(const AttentionChoice& choice) const {
  if (absl::Status status = ValidatePhase(choice.prefill, false); !status.ok()) return status;
  return ValidatePhase(choice.decode, true);
}

bool AttentionCatalog::CanCarryOut(int kind) const {
  return CarriesOut(device_, PolicyKinds()[static_cast<std::size_t>(kind)]->mechanism());
}

absl::Status AttentionCatalog::ValidatePhase(const PolicyChoice& choice, bool decode) const {
  const std::vector<PolicyDescription> descriptions = Describe();
  const std::string phase = decode ? "attention.decode" : "attention.prefill";
  if (const int kind = FindPolicyKind(choice.policy); kind >= 0 && !CanCarryOut(kind)) {
    return absl::UnimplementedError(
        absl::StrCat(phase, ".policy is ", choice.policy,
                     "; this engine's device has no kernels for it: use dense, or an engine that "
                     "was started with --device cpu"));
  }
  if (absl::Status status = ValidatePolicyChoice(choice, decode, descriptions); !status.ok()) {
    return status;
  }
  const ResolvedPolicy resolved = Resolve(choice);
  const PolicyKind& policy = *PolicyKinds()[static_cast<std::size_t>(resolved.kind)];
  return policy.Check(resolved.parameters, *this, phase);
}

bool AttentionCatalog::needs_sums() const {
  return std::ranges::any_of(PolicyKinds(), [&](const PolicyKind* policy) {
    return CarriesOut(device_, policy->mechanism()) && policy->needs_sums(*this);
  });
}

ResolvedPolicy AttentionCatalog::Resolve(const PolicyChoice& choice) const {
  ResolvedPolicy resolved;
  resolved.kind = FindPolicyKind(choice.policy);
  const PolicyDescription description = DescriptionOf(resolved.kind);
  for (std::size_t i = 0; i < description.parameters.size(); ++i) {
    const PolicyParameter& parameter = description.parameters[i];
    resolved.parameters[i] = parameter.default_value;
    for (const auto& [name, value] : choice.parameters) {
      if (name == parameter.name) resolved.parameters[i] = value;
    }
  }
  return resolved;
}

std::optional<int> AttentionCatalog::TargetOf(const AttentionChoice& choice) const {
  for (const PolicyChoice* phase : {&choice.decode, &choice.prefill}) {
    const ResolvedPolicy resolved = Resolve(*phase);
    const PolicyDescription& description =
        PolicyKinds()[static_cast<std::size_t>(resolved.kind)]->description();
    for (std::size_t i = 0; i < description.parameters.size(); ++i) {
      if (description.parameters[i].name == "k") return static_cast<int>(resolved.parameters[i]);
    }
  }
  return std::nullopt;
}

PrefixRules AttentionCatalog::PrefixRulesOf(const AttentionChoice& choice, int prompt_length,
                                            std::uint64_t nonce, bool batch_invariant) const {
  const ResolvedPolicy prefill = Resolve(choice.prefill);
  const ResolvedPolicy decode = Resolve(choice.decode);
  const auto& kinds = PolicyKinds();
  std::uint64_t decode_salt =
      kinds[static_cast<std::size_t>(decode.kind)]->DecodeSalt(decode.parameters);
  if (batch_invariant) decode_salt = Join(decode_salt, kDecoded);
  const auto accepted = [&](std::uint64_t written, std::uint64_t decoded) {
    return batch_invariant ? written : decoded;
  };
  const PrefillFootprint footprint = kinds[static_cast<std::size_t>(prefill.kind)]->FootprintOf(
      prefill.parameters, prompt_length, *this);
  PrefixRules rules;
  // The dense beginning. A conversation takes up what its own decoding wrote in earlier turns.
  AddSpan({.first_token = 0, .written = 0, .also_accepted = accepted(0, decode_salt)}, rules.salts);
  if (footprint.first_row >= prompt_length) {
    AddSpan({.first_token = prompt_length, .written = decode_salt, .also_accepted = decode_salt},
            rules.salts);
    return rules;
  }
  rules.prefill_chunk_multiple = footprint.chunk_multiple;
  const int first = footprint.first_row;
  if (footprint.matches_loosely) {
    AddSpan({.first_token = first, .written = footprint.salt, .also_accepted = 0}, rules.salts);
    if (decode_salt != 0) {  // a looser match of prompts is none of decoded rows
      const std::uint64_t after = Join(footprint.salt, decode_salt);
      AddSpan({.first_token = prompt_length, .written = after, .also_accepted = after},
              rules.salts);
    }
    return rules;
  }
  const std::uint64_t own = footprint.shares_nothing ? Join(footprint.salt, nonce) : footprint.salt;
  const bool bound = footprint.length_bound_row < prompt_length;
  const std::uint64_t last = bound ? Join(own, static_cast<std::uint64_t>(prompt_length)) : own;
  // The block that the prompt ends in holds rows of both policies.
  const std::uint64_t after = Join(last, decode_salt);
  AddSpan({.first_token = first, .written = own, .also_accepted = accepted(own, after)},
          rules.salts);
  if (bound) {
    AddSpan({.first_token = std::max(first, footprint.length_bound_row),
             .written = last,
             .also_accepted = accepted(last, after)},
            rules.salts);
  }
  AddSpan({.first_token = prompt_length, .written = after, .also_accepted = after}, rules.salts);
  return rules;
}

}  // namespace thresher
