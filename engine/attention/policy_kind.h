// One policy of the registry, as the engine sees it outside of a step: what it may be asked for,
// which cached blocks it shares, and how its objects are made.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/attention/attention_choice.h"
#include "engine/attention/attention_counts.h"
#include "engine/attention/attention_policy.h"

namespace thresher {

// Which of a prompt's rows a prefill policy may compute otherwise than dense attention would.
struct PrefillFootprint {
  // Rows from here on; the prompt's length or more: none, and nothing below counts.
  int first_row = 0;
  // What those rows depend on beside the tokens before them; not 0.
  std::uint64_t salt = 0;
  // From here on they also depend on the prompt's exact length.
  int length_bound_row = 0;
  int chunk_multiple = 1;  // their results do not change if chunks are cut at multiples of it
  // Blocks of any length and dense ones are taken for one's own.
  bool matches_loosely = false;
  bool shares_nothing = false;  // blocks with such rows are for this request alone
};

// Stateless and shared by all threads.
class PolicyKind {
 public:
  virtual ~PolicyKind() = default;
  // Parameters have their widest ranges.
  virtual const PolicyDescription& description() const = 0;
  virtual AttentionMechanism mechanism() const = 0;
  // Exists to judge other policies; refused from requests.
  virtual bool evaluates_only() const { return false; }
  // Its objects can be made only with a threshold table.
  virtual bool needs_table() const { return false; }
  // Reads the cache's sums of keys and values.
  virtual bool needs_sums(const AttentionCatalog&) const { return false; }
  // Narrows the ranges to what the catalog can serve.
  virtual void Narrow(const AttentionCatalog&, PolicyDescription&) const {}
  // What ranges cannot say. FieldError below `phase` ("attention.decode") saying what to do.
  virtual absl::Status Check(const ParameterValues&, const AttentionCatalog&,
                             const std::string& phase) const = 0;
  // As a prefill policy; called only if the description says so.
  virtual PrefillFootprint FootprintOf(const ParameterValues&, int prompt_length,
                                       const AttentionCatalog&) const = 0;
  // As a decode policy: what its rows depend on beside the tokens before them; 0: they are dense.
  virtual std::uint64_t DecodeSalt(const ParameterValues&) const = 0;
  // Why the sequence's share of a step is dense though the policy is not; none: it is not, or this
  // was said in another step of the sequence.
  virtual std::optional<DenseFallback> FallbackOf(const SequenceAttention&,
                                                  const AttentionCatalog&) const {
    return std::nullopt;
  }
  virtual absl::StatusOr<std::unique_ptr<AttentionPolicy>> Create(
      const PolicyResources& resources) const = 0;
};

// The policies of this build, the evaluation-only ones last.
std::span<const PolicyKind* const> PolicyKinds();
// The index of a policy in PolicyKinds(); −1 if there is none of that name.
int FindPolicyKind(std::string_view name);

// A hash of a policy's name and numbers; never 0, which stands for dense.
std::uint64_t PolicySalt(std::string_view name, std::span<const double> numbers);

}  // namespace thresher
