#include "kernels/cpu/score_observer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/cpu/attention_call.h"
#include "kernels/cpu/attention_plan.h"
#include "kernels/device/shape_check.h"

namespace thresher {
namespace {

constexpr const char* kOp = "score observer";

// A query to observe.
struct ObservedRow {
  int sequence = 0;
  int query = 0;  // of the sequence
  int num_keys = 0;
};

// The rows of one bucket for one KV head: one thread's work.
struct ObserverTask {
  int bucket = 0;
  int kv_head = 0;
  std::int64_t work = 0;  // keys over all rows
  const std::vector<ObservedRow>* rows = nullptr;
};

using RowsByBucket = std::map<int, std::vector<ObservedRow>>;

RowsByBucket SortRows(const AttentionBatch& batch, const ScoreObservation& observation) {
  RowsByBucket buckets;
  int sequence = 0;
  for (std::size_t i = 0; i < observation.rows.size(); ++i) {
    while (observation.rows[i] >= batch.query_start[sequence + 1]) ++sequence;
    const int query = observation.rows[i] - batch.query_start[sequence];
    buckets[observation.buckets[i]].push_back(
        {sequence, query, batch.context_length[sequence] + query + 1});
  }
  return buckets;
}

std::vector<ObserverTask> TasksOf(const RowsByBucket& buckets, int num_kv_heads) {
  std::vector<ObserverTask> tasks;
  for (const auto& [bucket, rows] : buckets) {
    const auto work =
        std::accumulate(rows.begin(), rows.end(), std::int64_t{0},
                        [](std::int64_t sum, const auto& row) { return sum + row.num_keys; });
    for (int kv_head = 0; kv_head < num_kv_heads; ++kv_head) {
      tasks.push_back({bucket, kv_head, work, &rows});
    }
  }
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const auto& a, const auto& b) { return a.work > b.work; });
  return tasks;
}

absl::Status CheckObservation(const AttentionBatch& batch, const ScoreObservation& observation) {
  if (observation.rows.size() != observation.buckets.size()) {
    return absl::InvalidArgumentError(std::string(kOp) + ": " +
                                      std::to_string(observation.rows.size()) + " rows have " +
                                      std::to_string(observation.buckets.size()) + " buckets");
  }
  const auto num_buckets =
      static_cast<std::int64_t>(observation.histograms.size()) / batch.num_heads;
  std::int64_t previous = -1;
  for (std::size_t i = 0; i < observation.rows.size(); ++i) {
    absl::Status status = CheckRange(kOp, "row", observation.rows[i], previous + 1,
                                     std::int64_t{batch.query_start.back()} - 1);
    if (status.ok()) {
      status = CheckRange(kOp, "bucket", observation.buckets[i], 0, num_buckets - 1);
    }
    if (!status.ok()) return status;
    previous = observation.rows[i];
  }
  return absl::OkStatus();
}

// One thread's memory and counts.
struct ObserverScratch {
  std::vector<float> loop, scores, weights, block_sums;
  std::uint64_t outside = 0;
  bool finite = true;
};

// The bin of a finite number; counts it if it is outside.
inline int BinOf(float x, std::uint64_t& outside) {
  const float at = (x - ScoreBins::kLowest) * (1 / ScoreBins::kWidth);
  if (at >= 0 && at < ScoreBins::kNumBins) return static_cast<int>(at);
  ++outside;
  return at < 0 ? 0 : ScoreBins::kNumBins - 1;
}

// Adds a row's scores to its head's histogram.
void AddRow(const RowOps& ops, const float* scores, int num_keys, ObserverScratch& scratch,
            ScoreHistogram& histogram) {
  const RowMaximum maximum = ops.row_maximum(scores, num_keys);
  // row_maximum judges NaN and +infinity; one −infinity makes the mean infinite.
  const double mean = std::accumulate(scores, scores + num_keys, 0.0) / num_keys;
  if (!maximum.valid || !std::isfinite(mean)) {
    scratch.finite = false;
    return;
  }
  ops.exp_weights(scores, num_keys, maximum.value, 1, scratch.weights.data(),
                  scratch.block_sums.data());
  const double sum =
      std::accumulate(scratch.block_sums.begin(),
                      scratch.block_sums.begin() + (num_keys + kLogitBlock - 1) / kLogitBlock, 0.0);
  const auto log_sum = static_cast<float>(maximum.value + std::log(sum));
  const auto centre = static_cast<float>(mean);
  for (int key = 0; key < num_keys; ++key) {
    const float score = scores[key];
    const double weight = scratch.weights[key];
    const int pre = BinOf(score, scratch.outside);
    const int centred = BinOf(score - centre, scratch.outside);
    ++histogram.count[0][pre];
    ++histogram.count[1][centred];
    ++histogram.count[2][BinOf(score - log_sum, scratch.outside)];
    histogram.weight[0][pre / ScoreBins::kBinsPerWeight] += weight;
    histogram.weight[1][centred / ScoreBins::kBinsPerWeight] += weight;
  }
}

}  // namespace

absl::Status CpuScoreObserver::Observe(const AttentionPlan& plan, const AttentionLayer& layer,
                                       const ScoreObservation& observation, Stream&) const {
  const AttentionBatch& batch = plan.batch;
  absl::Status status = CheckAttentionLayer(plan, layer, layer.cache.k.dtype);
  if (status.ok()) status = CheckObservation(batch, observation);
  if (!status.ok()) return status;
  const RowsByBucket buckets = SortRows(batch, observation);
  const std::vector<ObserverTask> tasks = TasksOf(buckets, batch.num_kv_heads);
  std::vector<ObserverScratch> scratches(team_.num_threads());

  const auto observe = [&](const ObserverTask& task, ObserverScratch& scratch) {
    const int group = batch.num_heads / batch.num_kv_heads;
    const auto num_lanes = static_cast<int>(task.rows->size()) * group;
    for (int lane = 0; lane < num_lanes;) {
      // Lanes are (row, head of the group) pairs of one sequence; the last one sees most keys.
      const ObservedRow& first = (*task.rows)[lane / group];
      const float* queries[kScoreRows];
      AttentionUnit unit =
          AttentionUnitOf(plan, layer, {.sequence = first.sequence, .kv_head = task.kv_head});
      int count = 0;
      for (; count < kScoreRows && lane + count < num_lanes; ++count) {
        const ObservedRow& row = (*task.rows)[(lane + count) / group];
        if (row.sequence != first.sequence) break;
        queries[count] = unit.q + row.query * unit.query_stride +
                         std::int64_t{(lane + count) % group} * unit.head_dim;
        unit.num_keys = row.num_keys;
      }
      const std::int64_t stride = ScoreStride(unit.num_keys);
      scratch.loop.resize(ScoreScratchFloats(unit.head_dim));
      scratch.scores.resize(kScoreRows * stride);
      scratch.weights.resize(stride);
      scratch.block_sums.resize(stride / kLogitBlock + 1);
      score_rows_(unit, queries, count, scratch.loop.data(), scratch.scores.data());
      for (int i = 0; i < count; ++i, ++lane) {
        const int head = task.kv_head * group + lane % group;
        AddRow(row_ops_, scratch.scores.data() + i * stride, (*task.rows)[lane / group].num_keys,
               scratch, observation.histograms[task.bucket * batch.num_heads + head]);
      }
    }
  };
  team_.ParallelFor(static_cast<std::int64_t>(tasks.size()), [&](std::int64_t task, int thread) {
    observe(tasks[task], scratches[thread]);
  });
  for (const ObserverScratch& scratch : scratches) {
    if (!scratch.finite) {
      return absl::FailedPreconditionError(
          std::string(kOp) + ": attention scores are not finite; the model overflows");
    }
    if (observation.outside != nullptr) *observation.outside += scratch.outside;
  }
  return absl::OkStatus();
}

}  // namespace thresher
