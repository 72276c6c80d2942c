// Judges lists of blocks while they are carried out: what the rows that read them lose, and whether
// their scores order blocks as the loss does.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/attention/attention_policy.h"
#include "engine/attention/evaluate/evaluation_report.h"

namespace thresher {

// Looks at one layer in four and at four rows of each list, which costs seconds where all would
// cost hours. Host memory; one thread at a time.
class BlockListJudge final : public BlockListObserver {
 public:
  absl::Status Observe(int layer_index, const AttentionPlan& plan, const AttentionLayer& layer,
                       const BlockSelection& selection) override;
  // Means over the lists seen; absent if there were none.
  std::optional<BlockListReading> Read() const;

 private:
  // One list: the blocks that the queries of a head read, their own, `own`, the last of them.
  struct List {
    std::span<const std::uint16_t> blocks;
    const float* scores = nullptr;  // [own + 1], or null
    int own = 0;
    int head = 0;
    int first_query = 0, end_query = 0;  // of the sequence, those of this step
  };
  void Judge(const AttentionPlan& plan, const AttentionLayer& layer, int sequence,
             const List& list);
  void WidenHead(const AttentionPlan& plan, const AttentionLayer& layer, int sequence, int kv_head);

  std::vector<float> k_, v_;    // [keys, head_dim] of one KV head
  std::vector<double> scores_;  // of a row
  BlockListReading sums_;
  double tau_sum_ = 0;
  std::int64_t num_taus_ = 0, num_rows_ = 0;
};

}  // namespace thresher
