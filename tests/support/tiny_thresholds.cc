#include "tests/support/tiny_thresholds.h"

#include <cmath>

#include "tests/support/threshold_tables.h"

namespace thresher::testing {

ThresholdContents TinyThresholds() {
  ThresholdContents table =
      SampleTable({.num_layers = 2, .num_heads = 8, .num_kv_heads = 4, .head_dim = 8});
  table.k = {4, 16, 64};
  table.n = {8, 64, 256};
  for (std::size_t p = 0; p < table.placements.size(); ++p) {
    std::vector<float>& theta = table.placements[p].theta;
    const bool post = p == static_cast<std::size_t>(ThresholdPlacement::kPost);
    std::size_t next = 0;
    for (int layer = 0; layer < table.num_layers; ++layer) {
      for (const int k : table.k) {
        for (const int n : table.n) {
          for (int head = 0; head < table.num_heads; ++head) {
            // Scores of a random model lie within about ± 0.2 of their mean.
            const float centred = 0.1f - 0.05f * std::log2(static_cast<float>(k) / 4);
            theta[next++] = post ? centred - std::log(static_cast<float>(n)) : centred;
          }
        }
      }
    }
  }
  return table;
}

}  // namespace thresher::testing
