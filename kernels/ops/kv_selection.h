// What the queries of a layer may read: the alternatives that the attention kernels carry out.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <variant>

#include "kernels/ops/threshold_grid.h"

namespace thresher {

// Every cached position.
struct SelectAll {};

// Which number of a key is compared with the threshold, strictly. s is q·k · scale, n the keys that
// the row sees.
enum class ThresholdPlacement : std::uint8_t {
  kPre,      // s
  kCentred,  // s minus the mean of the row's s, exact from the running sum of K
  kPost,     // s − ln Σ exp(s), the logarithm of the dense softmax weight
};

// The estimate of Σ exp(s − m) over the dropped keys, m the row's maximum, that joins the
// denominator.
enum class DroppedDenominator : std::uint8_t {
  kNone,         // weights are normalised over the survivors
  kExact,        // the sum itself: weights equal the dense ones
  kExponential,  // gamma · (n − survivors) · exp(θ − m)
  kCalibrated,   // from the grid's table
};

// What stands in for the dropped values: the mass that the weights leave times a mean of V.
enum class ValueMean : std::uint8_t {
  kOff,
  kAll,      // the mean over all keys of the row
  kDropped,  // the mean over the dropped ones
};

// Keys above a threshold of (layer, query head, row length, k). Rows with n ≤ k or n > longest_row,
// or k = 0, read all and are bitwise what the mechanism `all` makes of them in the same phase. A
// head that keeps no key gives the mean of V; with ValueMean kOff it keeps its largest score, of
// equals the first, alone and for no other head. Source: Top-θ attention, arXiv 2502.08363.
struct SelectAboveThreshold {
  ThresholdGrid grid;  // this layer's
  // k of each sequence of the batch [num_sequences]; 0: dense.
  std::span<const std::int32_t> targets;
  std::int32_t longest_row = INT32_MAX;  // keys of the longest row that the grid speaks for
  ThresholdPlacement placement = ThresholdPlacement::kCentred;
  DroppedDenominator denominator = DroppedDenominator::kExact;
  ValueMean value_mean = ValueMean::kDropped;
  float gamma = 1;  // of kExponential
  // A value row that one head of a KV head's group keeps is used by all heads of the group, with
  // their true weights. Not with kExponential or kCalibrated, whose estimates speak of one head.
  bool promotes = true;
};

// Tokens of a block of SelectBlocks, counted from position 0, whatever the cache's block size.
inline constexpr int kSelectionBlock = 128;
// A list that stands for every block up to the row's own.
inline constexpr std::int32_t kAllBlocks = -1;

// Aligned blocks that the queries of a sequence touch: those from position context_length on.
constexpr int NumQueryBlocks(int context_length, int query_length) {
  if (query_length == 0) return 0;
  return (context_length + query_length - 1) / kSelectionBlock - context_length / kSelectionBlock +
         1;
}

// For each query block and head a list of the KV blocks that its queries read, each query up to its
// own position. A batch's query blocks are the aligned blocks that each sequence's queries touch,
// in order of sequences, then positions.
struct SelectBlocks {
  std::span<const std::int32_t> query_block_start;  // [num_sequences + 1]
  // Device memory. list_length [query blocks, heads], kAllBlocks or at least 1; blocks [query
  // blocks, heads, capacity], ascending, the last one the queries' own.
  const std::int32_t* list_length = nullptr;
  const std::uint16_t* blocks = nullptr;
  int capacity = 0;
};

// The best keys of each row, which is what a threshold or a bound is judged by: exact, and slow, as
// all scores come first. Rows with n ≤ k, or k = 0, read all and are bitwise what the mechanism
// `all` makes of them in the same phase.
struct SelectRanked {
  // k of each sequence of the batch [num_sequences]; 0: dense; with pages at least kRankedPage.
  std::span<const std::int32_t> targets;
  // False: a head reads its k largest scores, of equals the first. True: the heads of a KV head
  // read the k / kRankedPage (rounded down) aligned pages whose bounds are the largest, of equals
  // the first. A page's bound is the largest over the heads of Σ_c max(q_c · min k_c, q_c · max
  // k_c), over the page's keys that the row sees. Source: Quest, arXiv 2406.10774.
  bool by_pages = false;
  // Of each sequence, or empty for none. 1: weights are the dense ones, and the mean of the dropped
  // values stands in for the mass that they leave. 0: they are normalised over the keys read.
  std::span<const std::uint8_t> compensates = {};
};
inline constexpr int kRankedPage = 16;

using KvSelection = std::variant<SelectAll, SelectAboveThreshold, SelectBlocks, SelectRanked>;

// Upper bounds of the buckets below; one more bucket takes the rest.
inline constexpr std::array<float, 11> kTargetRatioBounds = {0.25f, 0.5f,  0.67f, 0.8f, 0.9f, 1.0f,
                                                             1.1f,  1.25f, 1.5f,  2.0f, 4.0f};
inline constexpr std::array<float, 7> kDroppedMassBounds = {0.001f, 0.003f, 0.01f, 0.03f,
                                                            0.1f,   0.3f,   0.6f};

// What the threshold or ranking kernel did for one query row and KV head, summed over the layers of
// a step. "Heads" are query heads of layers in which the row was thresholded.
struct ThresholdCounts {
  std::int64_t key_rows = 0;    // n a layer
  std::int64_t value_rows = 0;  // read: survivors of any head of the group; n where dense
  std::int32_t num_heads = 0;
  float ratio_sum = 0;  // survivors / k over heads; a head's own survivors, not promoted ones
  float dropped_mass_sum = 0;  // share of the softmax mass that a head's output left out
  std::array<std::int32_t, kTargetRatioBounds.size() + 1> ratio_buckets = {};
  std::array<std::int32_t, kDroppedMassBounds.size() + 1> dropped_mass_buckets = {};
};

}  // namespace thresher
