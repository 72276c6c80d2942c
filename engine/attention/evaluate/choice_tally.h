// Adds up what one choice did to the text, position by position, and reads the sums off at the end.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/attention/attention_counts.h"
#include "engine/attention/evaluate/evaluation_report.h"
#include "engine/attention/evaluate/logit_comparison.h"
#include "engine/attention/evaluate/paired_bootstrap.h"

namespace thresher {

class ChoiceTally final {
 public:
  // Positions are told to it in order; a new window begins a new stretch. `first_position`: those
  // below it are left out.
  explicit ChoiceTally(int first_position) : first_position_(first_position) {}

  void BeginWindow() { stretch_open_ = false; }
  void Add(int position, const LogitComparison& comparison);
  // What the step that ended at row length `row_length` read. `at_end`: among the last rows of its
  // window.
  void Add(int row_length, bool at_end, const StepAttentionReport& report);
  // survivors [num_layers, num_rows, num_heads] of a step, negative where a row was not
  // thresholded; targets [num_layers], or empty: the policy has none. The first row stands at
  // position context_length.
  void AddSurvivors(std::span<const std::int32_t> survivors, std::span<const int> targets,
                    int context_length, int num_rows);

  // All but the tasks and the choice itself.
  ChoiceReading Read(std::uint64_t seed) const;
  double dense_perplexity() const;
  std::int64_t num_tokens() const { return num_tokens_; }

 private:
  // Neighbouring positions are not independent; the bootstrap draws stretches of this many.
  static constexpr int kStretch = 128;
  struct Sums {
    std::int64_t tokens = 0, same_top = 0;
    double dense_nll = 0, sparse_nll = 0, kl = 0;
    std::int64_t ratio_count = 0, value_rows = 0, value_rows_read = 0;
    double ratio_sum = 0, dropped_mass_sum = 0;
  };

  const int first_position_;
  bool stretch_open_ = false;
  std::int64_t num_tokens_ = 0;
  std::vector<StretchSum> kl_, nll_increase_, same_top_;
  std::array<Sums, kNumRowLengths> by_length_;
  AttentionCounts counts_, counts_at_end_;
  ShadowReport shadow_;
  std::int64_t own_rows_ = 0, own_rows_read_ = 0;  // over query heads, each for itself
  std::vector<double> head_ratios_;      // [num_layers, num_heads], survivors over k, summed
  std::vector<std::int64_t> head_rows_;  // and the rows that were
};

}  // namespace thresher
