#include "tests/support/reference/threshold_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tests/support/reference/numbers.h"

namespace thresher {
namespace {

constexpr double kU = 0x1p-24;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The keys and values that a row sees.
struct Context {
  std::vector<std::vector<double>> k;
  std::vector<std::vector<double>> v;
};

// What the row's scores are in f32, at most this far off: sums of head_dim products, and the
// difference to the maximum (see paged_attention_case.cc).
double ScoreError(const ThresholdRow& row, std::span<const float> q, const Context& context,
                  double scale) {
  double error = 0, largest = 0;
  for (const double score : row.scores) largest = std::max(largest, std::fabs(score));
  for (const std::vector<double>& k : context.k) {
    double size = 0;
    for (std::size_t d = 0; d < k.size(); ++d) size += std::fabs(q[d] * k[d]);
    error = std::max(error, (static_cast<double>(k.size()) + 3) * kU * size * scale);
  }
  return error + 2 * kU * largest;
}

void Score(std::span<const float> q, const Context& context, double scale, ThresholdRow& row) {
  for (const std::vector<double>& k : context.k) {
    double score = 0;
    for (std::size_t d = 0; d < k.size(); ++d) score += q[d] * k[d];
    row.scores.push_back(score * scale);
  }
  const double largest = *std::max_element(row.scores.begin(), row.scores.end());
  double sum = 0;
  for (const double score : row.scores) sum += std::exp(score - largest);
  for (const double score : row.scores) row.softmax.push_back(std::exp(score - largest) / sum);
}

double ThresholdOf(const SelectAboveThreshold& selection, const ThresholdRow& row, int target,
                   int head) {
  const int n = static_cast<int>(row.scores.size());
  const ThresholdPlace place = PlaceThreshold(selection.grid, target, n);
  const double theta = ThresholdAt(selection.grid, place, head);
  double offset = 0;
  if (selection.placement == ThresholdPlacement::kCentred) {
    for (const double score : row.scores) offset += score / n;
  } else if (selection.placement == ThresholdPlacement::kPost) {
    offset = row.scores[0] - std::log(row.softmax[0]);
  }
  return theta + offset;
}

double DroppedEstimate(const SelectAboveThreshold& selection, const ThresholdRow& row, int target,
                       int head, double exact, double num_dropped) {
  if (num_dropped == 0) return 0;
  const double largest = *std::max_element(row.scores.begin(), row.scores.end());
  switch (selection.denominator) {
    case DroppedDenominator::kNone:
      return 0;
    case DroppedDenominator::kExact:
      return exact;
    case DroppedDenominator::kExponential:
      return selection.gamma * num_dropped * std::exp(std::min(0.0, row.threshold - largest));
    case DroppedDenominator::kCalibrated:
      return InterpolateGrid(
          selection.grid, selection.grid.dropped,
          PlaceThreshold(selection.grid, target, static_cast<int>(row.scores.size())), head);
  }
  return 0;
}

// The bound. A score is off by `error`, so a weight by a factor of 1 ± e, e = error + 3e-7 (the
// exponential) + (n + 64) u (its sum); an estimate exp(θ − m) by no more than twice that, θ being
// off by an error of scores itself. The sums of values are off by (n + 64) u times the sum of
// sizes; the mean over the dropped rows is a difference of two of them.
void Finish(const SelectAboveThreshold& selection, const Context& context, int target, int head,
            double error, DType out_dtype, ThresholdRow& row) {
  const int n = static_cast<int>(row.scores.size()), dim = static_cast<int>(context.v[0].size());
  double kept = 0, dropped = 0, num_kept = 0;
  const double largest = *std::max_element(row.scores.begin(), row.scores.end());
  for (int i = 0; i < n; ++i) {
    (row.used[i] ? kept : dropped) += std::exp(row.scores[i] - largest);
    num_kept += row.used[i] ? 1 : 0;
  }
  row.dropped_mass = dropped / (kept + dropped);
  const double rest =
      target == 0 ? 0 : DroppedEstimate(selection, row, target, head, dropped, n - num_kept);
  const bool has_mean = target != 0 && selection.value_mean != ValueMean::kOff && num_kept < n;
  const double beta = num_kept == 0 ? 1 : rest / (kept + rest);
  const double e = 2 * error + 3e-7 + (n + 64) * kU;
  row.output.assign(dim, 0);
  for (int d = 0; d < dim; ++d) {
    double magnitude = 0, mean = 0, count = 0, sizes = 0;
    for (int i = 0; i < n; ++i) {
      const double v = context.v[i][d];
      sizes += std::fabs(v);
      if (row.used[i]) {
        const double w = std::exp(row.scores[i] - largest) / (kept + rest);
        row.output[d] += w * v;
        magnitude += w * std::fabs(v);
      }
      if (selection.value_mean == ValueMean::kAll || !row.used[i]) {
        mean += v;
        ++count;
      }
    }
    double bound = 2 * e * magnitude + 2 * (n + 64) * kU * magnitude;
    if (has_mean) {
      row.output[d] += beta * mean / count;
      bound += 4 * e * beta * std::fabs(mean / count) + 3 * (n + 64) * kU * beta * sizes / count;
    }
    bound = 1.1 * bound + 1.01 * RoundingOf(out_dtype) * std::fabs(row.output[d]) + 1e-30;
    row.bound = std::max(row.bound, bound);
  }
}

}  // namespace

FlatThresholds::FlatThresholds(std::vector<float> thresholds, std::vector<float> denominators)
    : theta(std::move(thresholds)), slope(theta.size(), 0), dropped(std::move(denominators)) {}

ThresholdGrid FlatThresholds::grid() const {
  return {.log_k = axis,
          .log_n = axis,
          .theta = theta.data(),
          .slope = slope.data(),
          .dropped = dropped.empty() ? nullptr : dropped.data(),
          .num_heads = static_cast<int>(theta.size())};
}

int ThresholdRow::num_survivors() const {
  return static_cast<int>(std::count(survives.begin(), survives.end(), true));
}

double ThresholdReference::ambiguous_share() const {
  const auto count = std::count_if(rows.begin(), rows.end(),
                                   [](const ThresholdRow& row) { return row.ambiguous; });
  return static_cast<double>(count) / static_cast<double>(rows.size());
}

namespace {

// The rows of one query and KV head.
void ComputeGroup(const PagedAttentionCase& attention, const SelectAboveThreshold& selection,
                  int target, std::int64_t query_row, int kv_head, const Context& context,
                  ThresholdReference& reference) {
  const PagedAttentionShape& shape = attention.shape();
  const int group_size = shape.num_heads / shape.num_kv_heads;
  const int n = static_cast<int>(context.k.size());
  ThresholdRow* rows = reference.rows.data() + query_row * shape.num_heads + kv_head * group_size;
  const bool sparse = target != 0 && n > target && n <= selection.longest_row;
  std::vector<bool> any(n, !sparse);
  std::vector<double> errors(group_size);
  bool ambiguous = false;
  for (int i = 0; i < group_size; ++i) {
    ThresholdRow& row = rows[i];
    const int head = kv_head * group_size + i;
    const std::span<const float> q = attention.Query(query_row, head);
    Score(q, context, attention.scale(), row);
    errors[i] = ScoreError(row, q, context, attention.scale());
    row.survives.assign(n, true);
    if (!sparse) continue;
    row.threshold = ThresholdOf(selection, row, target, head);
    // The threshold of a placement is off by scores' error too.
    const double doubt = 3 * errors[i] + 4 * kU * std::fabs(row.threshold);
    for (int key = 0; key < n; ++key) {
      row.survives[key] = row.scores[key] > row.threshold;
      any[key] = any[key] || row.survives[key];
      ambiguous = ambiguous || std::fabs(row.scores[key] - row.threshold) < doubt;
    }
  }
  std::int64_t value_rows = std::count(any.begin(), any.end(), true);
  std::vector<bool> argmaxes(n, false);
  for (int i = 0; i < group_size; ++i) {
    ThresholdRow& row = rows[i];
    row.ambiguous = ambiguous;
    row.used = sparse && !selection.promotes ? row.survives : any;
    const bool none = std::count(row.used.begin(), row.used.end(), true) == 0;
    if (none && selection.value_mean == ValueMean::kOff) {
      const auto most = std::max_element(row.scores.begin(), row.scores.end());
      row.used[most - row.scores.begin()] = true;
      row.survives = row.used;
      argmaxes[most - row.scores.begin()] = true;
    }
    Finish(selection, context, sparse ? target : 0, kv_head * group_size + i, errors[i],
           shape.out_dtype, row);
    if (ambiguous) row.bound = kInfinity;
  }
  for (int key = 0; key < n; ++key) value_rows += argmaxes[key] && !any[key] ? 1 : 0;
  reference.value_rows[query_row * shape.num_kv_heads + kv_head] = value_rows;
}

}  // namespace

ThresholdReference ComputeThresholdReference(const PagedAttentionCase& attention,
                                             const SelectAboveThreshold& selection) {
  const PagedAttentionShape& shape = attention.shape();
  ThresholdReference reference;
  reference.rows.resize(attention.num_tokens() * shape.num_heads);
  reference.value_rows.resize(attention.num_tokens() * shape.num_kv_heads);
  for (int s = 0; s < static_cast<int>(attention.sequences().size()); ++s) {
    const PagedSequence& sequence = attention.sequences()[s];
    for (int kv_head = 0; kv_head < shape.num_kv_heads; ++kv_head) {
      Context context;
      for (int position = 0; position < sequence.context_length + sequence.query_length;
           ++position) {
        context.k.push_back(attention.Key(s, kv_head, position));
        context.v.push_back(attention.Value(s, kv_head, position));
        const int query = position - sequence.context_length;
        if (query < 0) continue;
        ComputeGroup(attention, selection, selection.targets[s], attention.query_start(s) + query,
                     kv_head, context, reference);
      }
    }
  }
  return reference;
}

}  // namespace thresher
