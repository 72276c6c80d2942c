#include "kernels/cpu/ranked_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include "kernels/cpu/half_float.h"
#include "kernels/cpu/page_bounds.h"
#include "kernels/cpu/threshold_counts.h"

namespace thresher {
namespace {

constexpr int kMaxHeadDim = 256;

// Queries scored in one call: whole ones, as a group's heads share counts and pages.
int QueriesOfCall(int group_size) { return std::max(1, kScoreRows / group_size); }

// Where things lie in the scratch, in floats.
struct Layout {
  Layout(int max_keys, int head_dim, int group_size) {
    const std::int64_t keys = ScoreStride(max_keys);
    const int lanes = (QueriesOfCall(group_size) * group_size + kScoreRows - 1) / kScoreRows;
    const auto take = [this](std::int64_t floats) {
      const std::int64_t at = total;
      total += (floats + 15) / 16 * 16;  // whole cache lines
      return at;
    };
    loop = take(ScoreScratchFloats(head_dim));
    scores = take(lanes * kScoreRows * keys);
    weights = take(keys);
    kept_weights = take(keys);
    block_sums = take(keys / kLogitBlock + 1);
    codes = take(keys);
    positions = take(keys);
    chosen = take(keys / 4);
    read = take(keys / 4);
    bounds = take(PageBounds::Floats(max_keys, kRankedPage, head_dim));
    page_bounds = take(keys / kRankedPage);
    largest_bounds = take(keys / kRankedPage);
    chosen_pages = take(keys / kRankedPage);
  }
  std::int64_t loop = 0, scores = 0, weights = 0, kept_weights = 0, block_sums = 0, codes = 0,
               positions = 0, chosen = 0, read = 0;
  std::int64_t bounds = 0, page_bounds = 0, largest_bounds = 0, chosen_pages = 0, total = 0;
};

// Numbers in the order of floats, so that selecting needs no care for NaNs; both zeros are one.
std::uint32_t OrderOf(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// chosen[i] := whether x[i] is among the `count` largest, 1 ≤ count ≤ n; of equals, the first are.
void MarkLargest(const float* x, int n, int count, std::uint32_t* codes, std::uint8_t* chosen) {
  for (int i = 0; i < n; ++i) codes[i] = OrderOf(x[i]);
  std::nth_element(codes, codes + count - 1, codes + n, std::greater<>());
  const std::uint32_t least = codes[count - 1];
  int room = count;
  for (int i = 0; i < n; ++i) {
    chosen[i] = OrderOf(x[i]) > least ? 1 : 0;
    room -= chosen[i];
  }
  for (int i = 0; i < n && room > 0; ++i) {
    if (OrderOf(x[i]) != least) continue;
    chosen[i] = 1;
    --room;
  }
}

// row [head_dim] := the element of the cache at `position`, widened.
void WidenRow(const AttentionUnit& unit, const std::byte* cache, int position, float* row) {
  const std::byte* bytes = cache + unit.block_table[position / unit.block_size] * unit.block_bytes +
                           std::int64_t{position % unit.block_size} * unit.head_dim *
                               static_cast<std::int64_t>(SizeOf(unit.kv_dtype));
  if (unit.kv_dtype == DType::kF32) {
    std::memcpy(row, bytes, sizeof(float) * static_cast<std::size_t>(unit.head_dim));
    return;
  }
  const auto* halves = reinterpret_cast<const std::uint16_t*>(bytes);
  const bool is_bf16 = unit.kv_dtype == DType::kBF16;
  for (int d = 0; d < unit.head_dim; ++d) {
    row[d] = is_bf16 ? Bf16ToFloat(halves[d]) : F16ToFloat(halves[d]);
  }
}

class RankedRun final {
 public:
  RankedRun(const RankedUnit& unit, const RankedLoops& loops, float* scratch)
      : unit_(unit),
        rows_(unit.rows),
        loops_(loops),
        layout_(unit.rows.num_keys, unit.rows.head_dim, unit.rows.group_size),
        scratch_(scratch),
        bounds_(scratch + layout_.bounds, unit.rows.num_keys, kRankedPage, unit.rows.head_dim) {}

  void Run() {
    const int first = rows_.first_row / rows_.group_size;
    const int end = first + rows_.num_rows / rows_.group_size;
    const int step = QueriesOfCall(rows_.group_size);
    for (int query = first; query < end; query += step) {
      const int last = std::min(query + step, end);
      if (NumKeys(last - 1) <= unit_.target) continue;
      const std::int64_t stride = Score(query, last);
      for (int i = query; i < last; ++i) {
        if (NumKeys(i) <= unit_.target) continue;
        RunQuery(i, FloatsAt(layout_.scores) + (i - query) * rows_.group_size * stride, stride);
      }
    }
  }

 private:
  float* FloatsAt(std::int64_t offset) const { return scratch_ + offset; }
  std::uint8_t* BytesAt(std::int64_t offset) const {
    return reinterpret_cast<std::uint8_t*>(scratch_ + offset);
  }
  std::uint32_t* codes() const { return reinterpret_cast<std::uint32_t*>(FloatsAt(layout_.codes)); }
  int NumKeys(int query) const { return rows_.context_length + query + 1; }
  const float* QueryOf(int query, int head) const {
    return rows_.q + query * rows_.query_stride + std::int64_t{head} * rows_.head_dim;
  }

  // Scores of queries [first, end); returns the floats between two of their rows.
  std::int64_t Score(int first, int end) {
    AttentionUnit unit = rows_;
    unit.num_keys = NumKeys(end - 1);
    const std::int64_t stride = ScoreStride(unit.num_keys);
    const int num_lanes = (end - first) * rows_.group_size;
    for (int lane = 0; lane < num_lanes; lane += kScoreRows) {
      const float* queries[kScoreRows];
      const int count = std::min(kScoreRows, num_lanes - lane);
      for (int i = 0; i < count; ++i) {
        queries[i] = QueryOf(first + (lane + i) / rows_.group_size, (lane + i) % rows_.group_size);
      }
      loops_.score_rows(unit, queries, count, FloatsAt(layout_.loop),
                        FloatsAt(layout_.scores) + lane * stride);
    }
    return stride;
  }

  void RunQuery(int query, const float* scores, std::int64_t stride) {
    const int n = NumKeys(query);
    std::uint8_t* const chosen = BytesAt(layout_.chosen);
    std::uint8_t* const read = BytesAt(layout_.read);
    std::fill(read, read + n, std::uint8_t{0});
    if (unit_.by_pages) ChoosePages(query, n, chosen);
    if (unit_.compensates) AddValues(n);
    ThresholdCounts* counts =
        unit_.counts == nullptr ? nullptr : unit_.counts + query * unit_.counts_stride;
    for (int head = 0; head < rows_.group_size; ++head) {
      const float* own = scores + head * stride;
      if (!unit_.by_pages) MarkLargest(own, n, unit_.target, codes(), chosen);
      const int num_kept = Gather(chosen, n, read);
      const float dropped_mass = Attend(query, head, own, n, chosen, num_kept);
      if (counts != nullptr) CountHead(num_kept, unit_.target, dropped_mass, *counts);
      if (unit_.survivors != nullptr) {
        unit_.survivors[query * unit_.survivors_stride + head] = num_kept;
      }
    }
    if (counts == nullptr) return;
    const std::int64_t num_read = std::accumulate(read, read + n, std::int64_t{0});
    counts->value_rows += num_read;
    // Pages are chosen by two rows each, and only then are their keys read.
    counts->key_rows += unit_.by_pages ? num_read + 2 * bounds_.num_pages() : n;
  }

  // chosen[key] := whether its page is among the best for the group.
  void ChoosePages(int query, int n, std::uint8_t* chosen) {
    while (bounds_.num_keys() < n) {
      float key[kMaxHeadDim];
      WidenRow(rows_, rows_.k, bounds_.num_keys(), key);
      bounds_.Add(key);
    }
    const int num_pages = bounds_.num_pages();
    float* const of_head = FloatsAt(layout_.page_bounds);
    float* const largest = FloatsAt(layout_.largest_bounds);
    std::fill(largest, largest + num_pages, -std::numeric_limits<float>::infinity());
    for (int head = 0; head < rows_.group_size; ++head) {
      bounds_.Bound(QueryOf(query, head), of_head);
      for (int page = 0; page < num_pages; ++page) {
        largest[page] = std::max(largest[page], of_head[page]);
      }
    }
    std::uint8_t* const pages = BytesAt(layout_.chosen_pages);
    MarkLargest(largest, num_pages, unit_.target / kRankedPage, codes(), pages);
    for (int key = 0; key < n; ++key) chosen[key] = pages[key / kRankedPage];
  }

  // The chosen positions, in order; marks them as read.
  int Gather(const std::uint8_t* chosen, int n, std::uint8_t* read) {
    auto* const positions = reinterpret_cast<std::int32_t*>(FloatsAt(layout_.positions));
    int count = 0;
    for (int key = 0; key < n; ++key) {
      if (chosen[key] == 0) continue;
      positions[count++] = key;
      read[key] = 1;
    }
    return count;
  }

  // The sum of the values of the first n positions.
  void AddValues(int n) {
    for (; num_summed_ < n; ++num_summed_) {
      float value[kMaxHeadDim];
      WidenRow(rows_, rows_.v, num_summed_, value);
      for (int d = 0; d < rows_.head_dim; ++d) value_sum_[d] += value[d];
    }
  }

  // Writes the output of one head; returns the share of the softmax mass that was dropped.
  float Attend(int query, int head, const float* scores, int n, const std::uint8_t* chosen,
               int num_kept) {
    const RowMaximum most = loops_.ops.row_maximum(scores, n);
    float output[kMaxHeadDim] = {};
    if (!most.valid) {
      std::fill(output, output + rows_.head_dim, std::numeric_limits<float>::quiet_NaN());
      Write(query, head, output);
      return output[0];
    }
    float* const weights = FloatsAt(layout_.weights);
    loops_.ops.exp_weights(scores, n, most.value, 1, weights, FloatsAt(layout_.block_sums));
    double kept = 0, dropped = 0;
    for (int key = 0; key < n; ++key) (chosen[key] != 0 ? kept : dropped) += weights[key];
    // Weights of kept keys are relative to the best of them: pages may miss the best of all by so
    // much that nothing else is left of them.
    const auto* const positions =
        reinterpret_cast<const std::int32_t*>(FloatsAt(layout_.positions));
    float* const kept_weights = FloatsAt(layout_.kept_weights);
    float best = -std::numeric_limits<float>::infinity();
    for (int i = 0; i < num_kept; ++i) {
      kept_weights[i] = scores[positions[i]];
      best = std::max(best, kept_weights[i]);
    }
    if (unit_.compensates) best = most.value;
    loops_.ops.exp_weights(kept_weights, num_kept, best, 1, kept_weights,
                           FloatsAt(layout_.block_sums));
    const double sum = std::accumulate(kept_weights, kept_weights + num_kept, 0.0) +
                       (unit_.compensates ? dropped : 0);
    double kept_sum[kMaxHeadDim] = {};
    for (int i = 0; i < num_kept; ++i) {
      float value[kMaxHeadDim];
      WidenRow(rows_, rows_.v, positions[i], value);
      for (int d = 0; d < rows_.head_dim; ++d) output[d] += kept_weights[i] * value[d];
      if (!unit_.compensates) continue;
      for (int d = 0; d < rows_.head_dim; ++d) kept_sum[d] += value[d];
    }
    for (int d = 0; d < rows_.head_dim; ++d) {
      double element = output[d] / sum;
      if (unit_.compensates) {
        element += dropped / sum * (value_sum_[d] - kept_sum[d]) / (n - num_kept);
      }
      output[d] = static_cast<float>(element);
    }
    Write(query, head, output);
    return static_cast<float>(dropped / (kept + dropped));
  }

  void Write(int query, int head, const float* output) {
    const std::int64_t at = query * rows_.query_stride + std::int64_t{head} * rows_.head_dim;
    if (rows_.out_dtype == DType::kF32) {
      std::copy(output, output + rows_.head_dim, static_cast<float*>(rows_.out) + at);
      return;
    }
    auto* const out = static_cast<std::uint16_t*>(rows_.out) + at;
    for (int d = 0; d < rows_.head_dim; ++d) out[d] = FloatToBf16(output[d]);
  }

  const RankedUnit& unit_;
  const AttentionUnit& rows_;
  const RankedLoops& loops_;
  const Layout layout_;
  float* const scratch_;
  PageBounds bounds_;
  int num_summed_ = 0;
  double value_sum_[kMaxHeadDim] = {};
};

}  // namespace

std::int64_t RankedScratchFloats(int max_keys, int head_dim, int group_size) {
  return Layout(max_keys, head_dim, group_size).total;
}

void RunRankedRows(const RankedUnit& unit, const RankedLoops& loops, float* scratch) {
  RankedRun(unit, loops, scratch).Run();
}

}  // namespace thresher
