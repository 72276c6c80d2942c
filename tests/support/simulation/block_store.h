// A KV cache without numbers: each slot remembers which row was written into it, so that a wrong
// block shows at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/prefix_salt.h"
#include "scheduler/step_plan.h"

namespace thresher::simulation {

// The rows of one sequence: `prefixes[p]` is the chained hash of the tokens 0 to p.
struct SequenceRows {
  std::span<const std::uint64_t> prefixes;
  std::span<const SaltSpan> salts;
};

class BlockStore final {
 public:
  BlockStore(int num_blocks, int block_size);

  // Writes the query rows of a scheduled sequence, then reads all rows up to the last, as attention
  // does. Internal: a slot holds another token, position, prefix, or a salt that is not accepted.
  absl::Status Run(const ScheduledSequence& sequence, std::span<const BlockId> blocks,
                   const SequenceRows& rows);

 private:
  struct Slot {
    std::uint64_t prefix = 0;
    std::uint64_t salt = 0;
    int position = -1;
  };

  int block_size_;
  std::vector<Slot> slots_;  // [num_blocks, block_size]
};

// No block that a plan writes is named by another sequence of that plan or of one in flight.
class WriteGuard final {
 public:
  explicit WriteGuard(int num_blocks);
  // Enters a launched plan. `slot` is 0 or 1, the plan's place among those in flight.
  absl::Status Launch(const StepPlan& plan, int block_size, int slot);
  void Retire(int slot);

 private:
  struct Use {
    RequestId reader{};
    int num_readers = 0;  // distinct sequences that name it
    bool written = false;
  };

  std::vector<Use> uses_[2];  // [num_blocks] for each plan in flight
  std::vector<BlockId> touched_[2];
};

}  // namespace thresher::simulation
