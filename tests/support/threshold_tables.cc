#include "tests/support/threshold_tables.h"

#include <cmath>

namespace thresher::testing {
namespace {

std::vector<float> Rising(std::size_t count, float first, float step) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + step * static_cast<float>(i);
  return values;
}

PlacementThresholds SamplePlacement(const ThresholdContents& table, int placement) {
  PlacementThresholds made;
  const float sign = placement == static_cast<int>(ThresholdPlacement::kPost) ? -1.0f : 1.0f;
  for (int layer = 0; layer < table.num_layers; ++layer) {
    for (const int k : table.k) {
      for (const int n : table.n) {
        for (int head = 0; head < table.num_heads; ++head) {
          const float offset = 0.25f * static_cast<float>(head) + static_cast<float>(layer);
          made.theta.push_back(offset + static_cast<float>(placement) +
                               std::log(static_cast<float>(n)) * sign -
                               std::log(static_cast<float>(k)));
        }
      }
      for (int head = 0; head < table.num_heads; ++head) {
        made.slope.push_back(sign * (1 + 0.125f * static_cast<float>(head)));
      }
    }
  }
  if (placement != static_cast<int>(ThresholdPlacement::kPost)) {
    made.dropped = Rising(made.theta.size(), 0.5f, 0.01f);
    made.gamma = Rising(made.slope.size(), 0.05f, 0.001f);
  }
  return made;
}

}  // namespace

ThresholdContents SampleTable(const TableShape& shape) {
  ThresholdContents table;
  table.fingerprint.fields = {{"family", "llama"}, {"rope", "theta 10000"}, {"weights", "abcd"}};
  table.num_layers = shape.num_layers;
  table.num_heads = shape.num_heads;
  table.num_kv_heads = shape.num_kv_heads;
  table.head_dim = shape.head_dim;
  table.k = {16, 32, 64};
  table.n = {64, 128, 256};
  table.samples = {0, 200, 300};
  for (int p = 0; p < kNumPlacements; ++p) {
    table.placements[static_cast<std::size_t>(p)] = SamplePlacement(table, p);
  }
  const auto heads = static_cast<std::size_t>(shape.num_layers * shape.num_kv_heads);
  table.values = {.mean = Rising(heads, -1, 0.1f),
                  .std = Rising(heads, 0.5f, 0.1f),
                  .centred_mean = Rising(heads, -2, 0.1f),
                  .centred_std = Rising(heads, 0.25f, 0.1f),
                  .mean_value = Rising(heads * static_cast<std::size_t>(shape.head_dim), 0, 0.5f)};
  return table;
}

}  // namespace thresher::testing
