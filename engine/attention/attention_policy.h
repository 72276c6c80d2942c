// A policy decides which cached positions each query row may read. It never computes attention
// itself: it names a mechanism and hands it, for each layer, a selection.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/attention/attention_choice.h"
#include "kernels/device/device.h"
#include "kernels/ops/attention_kernel.h"

namespace thresher {

// A policy's view of one sequence's rows in a step.
struct SequenceAttention {
  int context_length = 0;  // tokens cached before this step
  int query_length = 0;    // rows of this step; row j stands at position context_length + j
  int prompt_length = 0;   // whole prompt, also while it is computed in chunks
};

struct AttentionShape {
  int num_layers = 0;
  int num_heads = 0;     // of this rank
  int num_kv_heads = 0;  // of this rank
  int head_dim = 0;
  int block_size = 0;
};

// The selections of one planned group.
class LayerSelector {
 public:
  virtual ~LayerSelector() = default;
  // Once a layer, after the step's keys are in the cache: `plan` is the group's, `layer` the whole
  // step's tensors, which the selector may score. Allocates nothing, waits for nothing. The
  // selection is good until the next call.
  virtual absl::StatusOr<KvSelection> Select(int layer_index, const AttentionPlan& plan,
                                             const AttentionLayer& layer, Stream& stream) = 0;
};

// One object for each group of rows; one thread at a time.
class AttentionPolicy {
 public:
  virtual ~AttentionPolicy() = default;
  virtual std::string_view name() const = 0;
  // Rows below the prompt's length are prefill whatever their number; later ones are decode.
  virtual bool Supports(AttentionPhase phase) const = 0;
  virtual AttentionMechanism mechanism() const = 0;
  // What ValidateAttentionChoice cannot know: whether this model can serve the parameters.
  virtual absl::Status Validate(const PolicyChoice& choice, const AttentionShape& shape) const = 0;
  // Once a step, for the group's sequences in the order of their rows. The selector belongs to the
  // policy and is good until the next Plan.
  virtual absl::StatusOr<LayerSelector*> Plan(std::span<const SequenceAttention> sequences,
                                              Stream& stream) = 0;
};

// The index of a policy in AttentionPolicies(); −1 if there is none of that name.
int FindAttentionPolicy(std::string_view name);
// A fresh object of the policy of that index.
std::unique_ptr<AttentionPolicy> CreateAttentionPolicy(int policy_index);

}  // namespace thresher
