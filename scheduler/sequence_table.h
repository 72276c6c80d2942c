// The sequences that hold blocks: how far each is computed, and its block table. Rows are flat and
// small, because every step visits all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "scheduler/ids.h"
#include "scheduler/prefix_cache.h"

namespace thresher {

enum class SequenceStage : std::uint8_t {
  kUnused,
  kRunning,
  kPreempting,  // in a plan in flight, then back to the queue
  kEnded,       // in a plan in flight, then gone; its samples are ignored
};

// What every step touches fills the first cache line.
struct alignas(64) Sequence {
  RequestId id{};
  ChainNode chain = kChainRoot;  // of the full blocks registered so far
  int context_length = 0;        // tokens computed or under way
  int committed_length = 0;      // tokens computed
  int num_tokens = 0;            // with those sampled in plans in flight
  int max_tokens = 0;            // prompt and output at most
  int prompt_length = 0;
  int num_known = 0;  // tokens in Request::known; later ones stand in the blocks
  int num_blocks = 0;
  int num_registered_blocks = 0;
  TokenId last_token = 0;  // sampled last among committed plans
  BlockId write_block{};   // holds the generated token at committed_length - 1, if there is one
  int request = kNoRequest;
  SequenceStage stage = SequenceStage::kUnused;
  bool preemptible = false;
  std::uint8_t num_plans = 0;            // in flight that name it
  std::uint8_t num_pending_samples = 0;  // of them

  // Blocks still promised: those that it certainly needs, and a reserve beyond, see SequenceBlocks.
  int promised_blocks = 0;
  int reserved_blocks = 0;
  int release_estimate = 0;  // blocks that become available when it is released
  static constexpr int kNoRequest = -1;

  // Everything known at admission is under way; what follows are sampled tokens, one a step.
  bool decoding() const { return context_length >= num_known; }
};

// Allocates memory at construction only; a row's block table is touched only as it is used.
class SequenceTable final {
 public:
  SequenceTable(int num_rows, int max_blocks)
      : rows_(num_rows),
        max_blocks_(max_blocks),
        block_tables_(std::make_unique_for_overwrite<BlockId[]>(static_cast<std::size_t>(num_rows) *
                                                                max_blocks)) {
    free_.reserve(num_rows);
    for (int i = num_rows - 1; i >= 0; --i) free_.push_back(i);
  }

  Sequence& operator[](int row) { return rows_[row]; }
  const Sequence& operator[](int row) const { return rows_[row]; }
  int num_rows() const { return static_cast<int>(rows_.size()); }
  int num_used() const { return num_rows() - static_cast<int>(free_.size()); }
  bool full() const { return free_.empty(); }

  int Add() {
    const int row = free_.back();
    free_.pop_back();
    rows_[row] = Sequence{};
    return row;
  }
  void Remove(int row) {
    rows_[row].stage = SequenceStage::kUnused;
    free_.push_back(row);
  }

  // [max_blocks], the first num_blocks of them in use.
  BlockId* block_table(int row) {
    return block_tables_.get() + static_cast<std::size_t>(row) * max_blocks_;
  }
  std::span<const BlockId> blocks(int row) const {
    return {block_tables_.get() + static_cast<std::size_t>(row) * max_blocks_,
            static_cast<std::size_t>(rows_[row].num_blocks)};
  }

 private:
  std::vector<Sequence> rows_;
  std::vector<int> free_;
  int max_blocks_;
  std::unique_ptr<BlockId[]> block_tables_;
};

}  // namespace thresher
