// A block selector's run over a PagedAttentionCase, and what came out.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/ops/block_selector.h"
#include "tests/support/reference/paged_attention_case.h"

namespace thresher {

struct BlockSelectionRun {
  // budget(sequence, own_block), kAllBlocks or the row's.
  std::function<int(int sequence, int own)> budget = [](int, int) { return kAllBlocks; };
  BlockSelectionRules rules;
  ValueStatistics statistics;
  float beta = 0.2f;
  int layer_index = 0;
};

// Lives on its own but for the selector's memory, which it owns.
struct SelectedBlocks {
  std::vector<std::int32_t> query_block_start;
  DeviceBuffer workspace;
  BlockSelection selection;
  int num_heads = 0;

  std::int64_t IndexOf(std::int64_t query_block, int head) const {
    return query_block * num_heads + head;
  }
  // The row's list; of every block up to `own` if it is kAllBlocks.
  std::set<int> List(std::int64_t query_block, int head, int own) const;
  bool ReadsAll(std::int64_t query_block, int head) const;
  // M of the row, [own + 1].
  std::span<const float> Scores(std::int64_t query_block, int head, int own) const;
};

// Runs the selector twice, as two layers do, in a workspace of the bytes that it asks for. The
// selection's lists point into the result, which must outlive their use.
absl::StatusOr<std::unique_ptr<SelectedBlocks>> RunBlockSelector(PagedAttentionCase& attention,
                                                                 Backend& backend,
                                                                 const BlockSelectionRun& run);

// Calls visit(sequence, own_block, query_block) for each query block of the batch.
void ForEachQueryBlock(const PagedAttentionCase& attention,
                       const std::function<void(int, int, std::int64_t)>& visit);

// Statistics of a case's first sequence, as calibration makes them.
struct OwnedValueStatistics {
  std::vector<float> mean, std, mean_value, centred_mean, centred_std;
  ValueStatistics View() const {
    return {mean.data(), std.data(), mean_value.data(), centred_mean.data(), centred_std.data()};
  }
};
OwnedValueStatistics CalibrateValues(const PagedAttentionCase& attention, int stride);

}  // namespace thresher
