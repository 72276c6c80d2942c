// What attention read, and how far that was from what it was asked for: plain numbers.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/ops/kv_selection.h"

namespace thresher {

// Why a sparse policy computed dense attention.
enum class DenseFallback : std::uint8_t {
  kShortPrompt,  // once for a prompt that the policy's schedule leaves dense
  kShortRow,     // once for a decoded token whose row is not longer than its k
  kLongPrompt,   // once for a prompt that has rows past what the threshold table speaks for
  kLongRow,      // once for a decoded token whose row is such a one
};
inline constexpr std::array<std::string_view, 4> kDenseFallbackNames = {"short_prompt", "short_row",
                                                                        "long_prompt", "long_row"};
inline constexpr std::size_t kNumDenseFallbacks = kDenseFallbackNames.size();

// Of one sequence, or summed over some.
struct AttentionCounts {
  // Rows of decode, one for each (step, layer, KV head, cached position), dense layers included.
  std::int64_t value_rows = 0;  // what dense attention would read
  std::int64_t value_rows_read = 0;
  std::int64_t key_rows_read = 0;
  std::int64_t kv_bytes_read = 0;  // K and V rows, and the sums of whole blocks
  std::int64_t kv_bytes_dense = 0;
  // Pairs of 128-token blocks of prompts, one for each (layer, query head, causal pair).
  std::int64_t blocks = 0;
  std::int64_t blocks_selected = 0;
  std::array<std::int64_t, kNumDenseFallbacks> dense_fallbacks = {};  // by DenseFallback

  void Add(const AttentionCounts& other) {
    value_rows += other.value_rows;
    value_rows_read += other.value_rows_read;
    key_rows_read += other.key_rows_read;
    kv_bytes_read += other.kv_bytes_read;
    kv_bytes_dense += other.kv_bytes_dense;
    blocks += other.blocks;
    blocks_selected += other.blocks_selected;
    for (std::size_t i = 0; i < kNumDenseFallbacks; ++i) {
      dense_fallbacks[i] += other.dense_fallbacks[i];
    }
  }
};

// Row lengths of which the fidelity is told apart: below 512, 2048, 8192, and the rest.
inline constexpr std::array<int, 3> kRowLengthBounds = {512, 2048, 8192};
inline constexpr std::array<std::string_view, 4> kRowLengthNames = {"<512", "512-2k", "2k-8k",
                                                                    ">8k"};
inline constexpr std::size_t kNumRowLengths = kRowLengthNames.size();

inline std::size_t RowLengthIndex(int num_keys) {
  std::size_t index = 0;
  while (index < kRowLengthBounds.size() && num_keys >= kRowLengthBounds[index]) ++index;
  return index;
}

// Of thresholded (row, layer, query head)s: survivors over k, and the dropped share of the softmax
// mass, in the buckets of kv_selection.h.
struct ThresholdFidelity {
  std::array<std::int64_t, kTargetRatioBounds.size() + 1> ratio_buckets = {};
  std::array<std::int64_t, kDroppedMassBounds.size() + 1> dropped_mass_buckets = {};
  double ratio_sum = 0, dropped_mass_sum = 0;

  void Add(const ThresholdFidelity& other) {
    for (std::size_t i = 0; i < ratio_buckets.size(); ++i) {
      ratio_buckets[i] += other.ratio_buckets[i];
    }
    for (std::size_t i = 0; i < dropped_mass_buckets.size(); ++i) {
      dropped_mass_buckets[i] += other.dropped_mass_buckets[i];
    }
    ratio_sum += other.ratio_sum;
    dropped_mass_sum += other.dropped_mass_sum;
  }
};

// Bounds of the relative errors below; one more bucket takes the rest.
inline constexpr std::array<float, 8> kOutputErrorBounds = {0.001f, 0.003f, 0.01f, 0.03f,
                                                            0.1f,   0.2f,   0.4f,  0.8f};

// Of steps that also computed dense attention.
struct ShadowReport {
  // |sparse − dense| / |dense| of a layer's output over the step's thresholded rows, one a layer
  // that has any.
  std::array<std::int64_t, kOutputErrorBounds.size() + 1> output_error_buckets = {};
  double output_error_sum = 0;
  std::int64_t num_tokens = 0;            // compared: sparse decodes that drew a token
  std::int64_t num_token_mismatches = 0;  // whose most likely token differs

  void Add(const ShadowReport& other) {
    for (std::size_t i = 0; i < output_error_buckets.size(); ++i) {
      output_error_buckets[i] += other.output_error_buckets[i];
    }
    output_error_sum += other.output_error_sum;
    num_tokens += other.num_tokens;
    num_token_mismatches += other.num_token_mismatches;
  }
};

// One rank's share of a step.
struct StepAttentionReport {
  std::vector<AttentionCounts> sequences;  // in the plan's order
  std::array<ThresholdFidelity, kNumRowLengths> fidelity = {};
  ShadowReport shadow;
};

}  // namespace thresher
