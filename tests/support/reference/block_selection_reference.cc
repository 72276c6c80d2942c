#include "tests/support/reference/block_selection_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/support/reference/numbers.h"

namespace thresher {
namespace {

constexpr double u = 0x1p-24;

struct Dot {
  double value = 0;
  double size = 0;  // of the magnitudes
};

// A sequence's rows for one head.
struct Rows {
  std::vector<std::vector<double>> q;  // from position first_query on
  std::vector<std::vector<double>> k;
  std::vector<std::vector<double>> v;
  int first_query = 0;
  int length = 0;

  Dot DotOf(int query, int key) const {
    Dot dot;
    const std::vector<double>& a = q[query - first_query];
    for (std::size_t d = 0; d < a.size(); ++d) {
      dot.value += a[d] * k[key][d];
      dot.size += std::fabs(a[d] * k[key][d]);
    }
    return dot;
  }
};

Rows RowsOf(const PagedAttentionCase& attention, int sequence, int head) {
  const PagedSequence& shape = attention.sequences()[sequence];
  const int kv_head = head / (attention.shape().num_heads / attention.shape().num_kv_heads);
  Rows rows;
  rows.first_query = shape.context_length;
  rows.length = shape.context_length + shape.query_length;
  for (int position = 0; position < rows.length; ++position) {
    rows.k.push_back(attention.Key(sequence, kv_head, position));
    rows.v.push_back(attention.Value(sequence, kv_head, position));
    if (position < rows.first_query) continue;
    const std::span<const float> q =
        attention.Query(attention.query_start(sequence) + position - rows.first_query, head);
    rows.q.emplace_back(q.begin(), q.end());
  }
  return rows;
}

// The bound: sums of keys are rounded to bf16, 2^-8 of each product at most; sums of fewer than
// 128 · head_dim + 256 terms in f32.
void ScoreAntidiagonal(const Rows& rows, int own, int first, int last, int stride, double scale,
                       ReferenceScores& scores) {
  for (int block = 0; block <= own; ++block) {
    if ((block + 1) * kSelectionBlock > rows.length) break;
    double sum = 0, size = 0;
    int pairs = 0;
    for (int query = first; query < last; ++query) {
      for (int key = block * kSelectionBlock; key < (block + 1) * kSelectionBlock; ++key) {
        if ((query + key) % stride != stride - 1) continue;
        const Dot dot = rows.DotOf(query, key);
        sum += dot.value;
        size += dot.size;
        ++pairs;
      }
    }
    scores.score[block] = sum * scale / pairs;
    const double terms = 128.0 * static_cast<double>(rows.k[0].size()) + 256;
    scores.bound[block] =
        1.1 * (RoundingOf(DType::kBF16) + terms * u) * size * scale / pairs + 1e-30;
  }
}

// The bound: let e be the largest error of a group score, (stride · head_dim + 4) u of its
// magnitudes plus u of its size and of the maximum's; a softmax weight is off by a factor 1 ± (2 e
// + 1e-6), exponentials of 3e-7 and sums included.
void ScoreGroups(const Rows& rows, int own, int first, int last, int stride, double scale,
                 bool is_mean, bool scores_tail, ReferenceScores& scores) {
  double e = 0;
  std::vector<double> mass(own + 1);
  int num_blocks = own + 1;
  if (!scores_tail && num_blocks * kSelectionBlock > rows.length) --num_blocks;
  for (int from = first / stride * stride; from < last; from += stride) {
    std::vector<double> group;
    const int begin = std::max(from, first), end = std::min(from + stride, last);
    // Groups of keys up to the queries' own.
    const int last_key = std::min(from + stride, num_blocks * kSelectionBlock);
    for (int key = 0; key + stride <= last_key; key += stride) {
      Dot sum;
      for (int query = begin; query < end; ++query) {
        const Dot dot = rows.DotOf(query, key + stride - 1 - query % stride);
        sum.value += dot.value * scale / (end - begin);
        sum.size += dot.size * scale / (end - begin);
      }
      group.push_back(sum.value);
      e = std::max(e, (stride * static_cast<double>(rows.k[0].size()) + 4) * u * sum.size +
                          2 * u * std::fabs(sum.value));
    }
    const double largest = *std::max_element(group.begin(), group.end());
    double total = 0;
    for (double& x : group) total += x = std::exp(x - largest);
    for (std::size_t g = 0; g < group.size(); ++g) {
      mass[g * stride / kSelectionBlock] += group[g] / total;
    }
  }
  for (int block = 0; block < num_blocks; ++block) {
    scores.score[block] = is_mean ? mass[block] / (last - first) : mass[block];
    scores.bound[block] = 1.1 * (4 * e + 4e-6) * scores.score[block] + 1e-30;
  }
}

// The bound: a logarithm of a norm in f32, 1e-6 off, divided by the deviation.
void AddValueTerm(const PagedAttentionCase& attention, int sequence, int kv_head,
                  const BlockSelectionRules& rules, double beta, const ValueStatistics& statistics,
                  ReferenceScores& scores) {
  const bool centred = rules.value_term == ValueTerm::kCentred;
  const float* centre =
      centred ? statistics.mean_value + std::int64_t{kv_head} * attention.shape().head_dim
              : nullptr;
  const std::vector<double> groups =
      ReferenceValueGroups(attention, sequence, kv_head, rules.stride, centre);
  double mean = 0, deviation = 1;
  if (rules.value_term == ValueTerm::kZScore) {
    const auto n = static_cast<double>(groups.size());
    mean = std::accumulate(groups.begin(), groups.end(), 0.0) / n;
    double squares = 0;
    for (const double x : groups) squares += (x - mean) * (x - mean);
    deviation = std::sqrt(squares / (n - 1)) + 1e-6;
  } else if (rules.value_term != ValueTerm::kRaw) {
    mean = (centred ? statistics.centred_mean : statistics.mean)[kv_head];
    deviation = (centred ? statistics.centred_std : statistics.std)[kv_head];
  }
  const int groups_of_block = kSelectionBlock / rules.stride;
  for (std::size_t block = 0; block < scores.score.size(); ++block) {
    if (std::isinf(scores.score[block])) continue;
    double term = 0, size = 0;
    for (int g = 0; g < groups_of_block; ++g) {
      const double x = groups[block * groups_of_block + g];
      size = std::max(size, (1 + std::fabs(x) + std::fabs(mean)) / deviation);
      if (rules.value_term == ValueTerm::kRaw) {
        term = std::max({term, std::log(std::exp(x) - 1e-6), 0.0});
      } else {
        term += std::max(0.0, (x - mean) / deviation) / groups_of_block;
      }
    }
    scores.score[block] += beta * term;
    scores.bound[block] +=
        std::fabs(beta) * (4e-6 * size + 4 * u * term) + 2 * u * std::fabs(scores.score[block]);
  }
}

}  // namespace

std::vector<double> ReferenceValueGroups(const PagedAttentionCase& attention, int sequence,
                                         int kv_head, int stride, const float* centre) {
  const PagedSequence& shape = attention.sequences()[sequence];
  const int length = shape.context_length + shape.query_length;
  std::vector<double> groups;
  for (int first = 0; first + stride <= length; first += stride) {
    double largest = 0;
    for (int position = first; position < first + stride; ++position) {
      const std::vector<double> v = attention.Value(sequence, kv_head, position);
      double square = 0;
      for (std::size_t d = 0; d < v.size(); ++d) {
        const double x = v[d] - (centre == nullptr ? 0 : centre[d]);
        square += x * x;
      }
      largest = std::max(largest, square);
    }
    groups.push_back(std::log(std::sqrt(largest) + 1e-6));
  }
  return groups;
}

ReferenceScores ReferenceBlockScores(const PagedAttentionCase& attention, int sequence, int head,
                                     int own, const BlockSelectionRules& rules, double beta,
                                     const ValueStatistics& statistics) {
  const Rows rows = RowsOf(attention, sequence, head);
  const int first = std::max(rows.first_query, own * kSelectionBlock);
  const int last = std::min(rows.length, (own + 1) * kSelectionBlock);
  ReferenceScores scores;
  scores.score.assign(own + 1, -std::numeric_limits<double>::infinity());
  scores.bound.assign(own + 1, 0);
  if (rules.score != BlockScore::kAntidiagonal) {
    const bool is_exact = rules.score == BlockScore::kExactMass;
    ScoreGroups(rows, own, first, last, is_exact ? 1 : rules.stride, attention.scale(), is_exact,
                is_exact, scores);
    return scores;
  }
  ScoreAntidiagonal(rows, own, first, last, rules.stride, attention.scale(), scores);
  if (rules.value_term != ValueTerm::kOff) {
    const int group_size = attention.shape().num_heads / attention.shape().num_kv_heads;
    AddValueTerm(attention, sequence, head / group_size, rules, beta, statistics, scores);
  }
  return scores;
}

std::set<int> ReferenceChoice(std::span<const float> scores, int budget,
                              const BlockSelectionRules& rules) {
  const int n = static_cast<int>(scores.size());
  std::set<int> forced;
  for (int block = 0; block < n; ++block) {
    if (block < rules.sink_blocks || block >= n - rules.local_blocks) forced.insert(block);
  }
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    const bool finite_a = std::isfinite(scores[a]), finite_b = std::isfinite(scores[b]);
    if (finite_a != finite_b) return finite_a;
    if (finite_a && scores[a] != scores[b]) return scores[a] > scores[b];
    return a > b;
  });
  if (rules.covered_mass == 0 && !rules.forced_in_budget) {
    std::set<int> list = forced;
    list.insert(order.begin(), order.begin() + std::min(budget, n));
    return list;
  }
  std::set<int> list = forced;
  double total = 0, covered = 0;
  for (int block = 0; block < n; ++block) {
    const double mass = std::isfinite(scores[block]) ? scores[block] : 0;
    total += mass;
    if (forced.contains(block)) covered += mass;
  }
  for (const int block : order) {
    if (forced.contains(block)) continue;
    const bool enough = rules.covered_mass > 0
                            ? covered >= static_cast<double>(rules.covered_mass) * total
                            : static_cast<int>(list.size()) >= budget;
    if (enough) break;
    list.insert(block);
    covered += std::isfinite(scores[block]) ? scores[block] : 0;
  }
  return list;
}

}  // namespace thresher
