// A policy decides which cached positions each query row may read. It never computes attention
// itself: it names a mechanism and hands it, for each layer, a selection.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/device/device.h"
#include "kernels/ops/attention_kernel.h"
#include "kernels/ops/block_selector.h"

namespace thresher {

class AttentionCatalog;

// A choice's parameters in the order of its policy's description, defaults filled in.
inline constexpr int kMaxPolicyParameters = 4;
using ParameterValues = std::array<double, kMaxPolicyParameters>;

// A policy's view of one sequence's rows in a step.
struct SequenceAttention {
  int context_length = 0;  // tokens cached before this step
  int query_length = 0;    // rows of this step; row j stands at position context_length + j
  int prompt_length = 0;   // whole prompt, also while it is computed in chunks
  ParameterValues parameters = {};
};

struct AttentionShape {
  int num_layers = 0;
  int num_heads = 0;     // of this rank
  int num_kv_heads = 0;  // of this rank
  int head_dim = 0;
  int block_size = 0;
  int first_head = 0;  // this rank's first among the model's
  int first_kv_head = 0;
};

struct AttentionLimits {
  int max_tokens = 0;           // query rows of a step
  int max_sequences = 0;        // sequences of a step
  int max_sequence_length = 0;  // cached and new tokens of one
  // Rows past a prompt take the decode kernel however many they are, so that tokens run again after
  // a preemption get the bits that they got one by one. Slower than the prefill kernel for many.
  bool batch_invariant = false;
};

// What a policy's object is made from. Catalog and backend outlive it.
struct PolicyResources {
  const AttentionCatalog& catalog;
  AttentionShape shape;
  AttentionLimits limits;
  const AttentionBatch& largest_batch;  // of the group; for this call alone
  Backend& backend;
  // Scratch for selecting, of all policies: groups run one after the other. Grown by policies as
  // they are created, and outlives them.
  DeviceBuffer& selection_workspace;
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
  // What the last selection's lists of blocks came from, as good as it; null: it has none.
  virtual const BlockSelection* block_selection() const { return nullptr; }
};

// Sees lists of blocks after the kernel has carried them out; for evaluation.
class BlockListObserver {
 public:
  virtual ~BlockListObserver() = default;
  // `plan` is the group's, `layer` the step's tensors.
  virtual absl::Status Observe(int layer_index, const AttentionPlan& plan,
                               const AttentionLayer& layer, const BlockSelection& selection) = 0;
};

// One object for each group of rows; one thread at a time. Allocates nothing after creation, except
// while plans still grow.
class AttentionPolicy {
 public:
  virtual ~AttentionPolicy() = default;
  // Once a step, for the group's sequences in the order of their rows. The selector belongs to the
  // policy and is good until the next Plan.
  virtual absl::StatusOr<LayerSelector*> Plan(std::span<const SequenceAttention> sequences,
                                              Stream& stream) = 0;
};

}  // namespace thresher
