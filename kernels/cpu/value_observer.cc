// The values' half of the CPU's score observer.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/cpu/attention_call.h"
#include "kernels/cpu/half_float.h"
#include "kernels/cpu/score_observer.h"
#include "kernels/device/shape_check.h"

namespace thresher {
namespace {

constexpr const char* kOp = "score observer";
constexpr int kGroup = 16;  // tokens whose largest norm counts

float ElementAt(const std::byte* row, DType dtype, int index) {
  if (dtype == DType::kF32) return reinterpret_cast<const float*>(row)[index];
  const std::uint16_t bits = reinterpret_cast<const std::uint16_t*>(row)[index];
  return dtype == DType::kBF16 ? Bf16ToFloat(bits) : F16ToFloat(bits);
}

// value [head_dim] := the value at a position.
void ReadValue(const AttentionUnit& unit, int position, std::vector<double>& value) {
  const std::byte* row =
      unit.v + unit.block_table[position / unit.block_size] * unit.block_bytes +
      std::int64_t{position % unit.block_size} * unit.head_dim * SizeOf(unit.kv_dtype);
  for (int d = 0; d < unit.head_dim; ++d) value[d] = ElementAt(row, unit.kv_dtype, d);
}

double LogNorm(const std::vector<double>& value, const float* mean) {
  double sum = 0;
  for (std::size_t d = 0; d < value.size(); ++d) {
    const double x = mean == nullptr ? value[d] : value[d] - mean[d];
    sum += x * x;
  }
  return std::log(std::sqrt(sum) + 1e-6);
}

// `unit` holds the sequence's queries as num_rows and its cached tokens as context_length. `mean`
// may be null.
void AddSequence(const AttentionUnit& unit, const float* mean, ValueSums& sums, double* totals) {
  std::vector<double> value(unit.head_dim);
  const int end = unit.context_length + unit.num_rows;
  for (int position = unit.context_length; position < end; ++position) {
    ReadValue(unit, position, value);
    for (int d = 0; d < unit.head_dim; ++d) totals[d] += value[d];
  }
  sums.num_tokens += unit.num_rows;
  // A group counts in the step that brings its last token, whichever step brought the others.
  for (int first = unit.context_length / kGroup * kGroup; first + kGroup <= end; first += kGroup) {
    double largest = -INFINITY, centred = -INFINITY;
    for (int position = first; position < first + kGroup; ++position) {
      ReadValue(unit, position, value);
      largest = std::max(largest, LogNorm(value, nullptr));
      if (mean != nullptr) centred = std::max(centred, LogNorm(value, mean));
    }
    ++sums.num_groups;
    sums.log_norm += largest;
    sums.log_norm_squared += largest * largest;
    if (mean == nullptr) continue;
    sums.centred_log_norm += centred;
    sums.centred_log_norm_squared += centred * centred;
  }
}

}  // namespace

absl::Status CpuScoreObserver::ObserveValues(const AttentionPlan& plan, const AttentionLayer& layer,
                                             std::span<const float> mean_value,
                                             std::span<ValueSums> sums,
                                             std::span<double> value_sums, Stream&) const {
  const AttentionBatch& batch = plan.batch;
  absl::Status status = CheckAttentionCache(plan, layer.cache, layer.cache.k.dtype);
  const std::int64_t heads = batch.num_kv_heads, elements = heads * batch.head_dim;
  const auto check = [&](const char* name, std::size_t size, std::int64_t wanted) {
    if (status.ok()) {
      status = CheckCount(kOp, name, static_cast<std::int64_t>(size), wanted);
    }
  };
  check("size of sums", sums.size(), heads);
  check("size of value_sums", value_sums.size(), elements);
  if (!mean_value.empty()) check("size of mean_value", mean_value.size(), elements);
  if (!status.ok()) return status;
  team_.ParallelFor(heads, [&](std::int64_t head, int) {
    for (int sequence = 0; sequence < batch.num_sequences(); ++sequence) {
      const std::int32_t queries = batch.query_start[sequence + 1] - batch.query_start[sequence];
      const AttentionUnit unit = AttentionUnitOf(
          plan, layer,
          {.sequence = sequence, .kv_head = static_cast<std::int32_t>(head), .num_rows = queries});
      AddSequence(unit, mean_value.empty() ? nullptr : &mean_value[head * batch.head_dim],
                  sums[head], &value_sums[head * batch.head_dim]);
    }
  });
  return absl::OkStatus();
}

}  // namespace thresher
