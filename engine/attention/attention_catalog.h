// What an engine can serve of attention: the operator's settings, the loaded threshold table, and
// every policy seen through them. Checks what a request asks for, and says which cached blocks it
// may share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/attention/attention_choice.h"
#include "engine/attention/attention_policy.h"
#include "engine/attention/attention_settings.h"
#include "engine/attention/threshold_table.h"
#include "kernels/backend.h"
#include "scheduler/prefix_salt.h"

namespace thresher {

struct PrefixRules {
  std::vector<SaltSpan> salts;
  int prefill_chunk_multiple = 1;
};

// A policy and its parameters, looked up once for a sequence.
struct ResolvedPolicy {
  int kind = 0;  // index into PolicyKinds()
  ParameterValues parameters = {};
};

// Immutable; any thread. One for each engine.
class AttentionCatalog final {
 public:
  // `table` may be null: policies that need one are then refused, and so are those whose mechanism
  // the device does not carry out. InvalidArgument as AttentionSettings::Validate;
  // FailedPrecondition if the table lacks what the settings need.
  static absl::StatusOr<std::unique_ptr<AttentionCatalog>> Create(
      AttentionSettings settings, std::unique_ptr<const ThresholdTable> table,
      DeviceKind device = DeviceKind::kCpu);

  const AttentionSettings& settings() const { return settings_; }
  const ThresholdTable* table() const { return table_.get(); }  // null: none
  // Keys of the longest row that top_theta thresholds; longer ones are dense. INT_MAX: no limit.
  int longest_thresholded_row() const;
  // What a request may name here, with the ranges that this engine serves.
  std::vector<PolicyDescription> Describe() const;
  // FieldError naming the field ("attention.decode.k"), the value, and what is allowed or what to
  // do. Unimplemented, likewise, for a policy that the device does not carry out.
  absl::Status Validate(const AttentionChoice& choice) const;
  // Whether the device carries out the policy, by its index in PolicyKinds().
  bool CanCarryOut(int kind) const;
  // True if some policy that can be served reads the cache's sums of keys and values.
  bool needs_sums() const;

  // Of a valid choice.
  ResolvedPolicy Resolve(const PolicyChoice& choice) const;
  // The k of a valid choice's decode policy, else of its prefill policy, if one has it.
  std::optional<int> TargetOf(const AttentionChoice& choice) const;
  // Of a valid choice. Blocks are shared between requests only where they hold what each would have
  // computed; `nonce` tells requests apart that must share nothing. batch_invariant: to the bit, so
  // that no prompt reads blocks that decoding wrote, as its kernel rounds otherwise.
  PrefixRules PrefixRulesOf(const AttentionChoice& choice, int prompt_length, std::uint64_t nonce,
                            bool batch_invariant) const;

 private:
  AttentionCatalog(AttentionSettings settings, std::unique_ptr<const ThresholdTable> table,
                   DeviceKind device);
  PolicyDescription DescriptionOf(int kind) const;
  absl::Status ValidatePhase(const PolicyChoice& choice, bool decode) const;

  const AttentionSettings settings_;
  const std::unique_ptr<const ThresholdTable> table_;
  const DeviceKind device_;
};

}  // namespace thresher
