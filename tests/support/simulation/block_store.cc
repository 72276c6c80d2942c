#include "tests/support/simulation/block_store.h"

#include "absl/strings/str_cat.h"
#include "scheduler/block_pool.h"

namespace thresher::simulation {

BlockStore::BlockStore(int num_blocks, int block_size)
    : block_size_(block_size), slots_(static_cast<std::size_t>(num_blocks) * block_size) {}

absl::Status BlockStore::Run(const ScheduledSequence& sequence, std::span<const BlockId> blocks,
                             const SequenceRows& rows) {
  const int length = sequence.context_length + sequence.query_length;
  int first = sequence.context_length;
  for (int position = first; position < length; ++position) {
    const int block = position / block_size_;
    slots_[static_cast<std::size_t>(IndexOf(blocks[block])) * block_size_ +
           position % block_size_] = {
        rows.prefixes[position], SpanOfBlock(rows.salts, block, block_size_).written, position};
  }
  for (int block = 0; block * block_size_ < length; ++block) {
    const SaltSpan& span = SpanOfBlock(rows.salts, block, block_size_);
    const Slot* slot = &slots_[static_cast<std::size_t>(IndexOf(blocks[block])) * block_size_];
    for (int position = block * block_size_;
         position < length && position < (block + 1) * block_size_; ++position, ++slot) {
      if (slot->prefix == rows.prefixes[position] && slot->position == position &&
          (slot->salt == span.written || slot->salt == span.also_accepted)) {
        continue;
      }
      return absl::InternalError(absl::StrCat(
          "request ", static_cast<std::int64_t>(sequence.id), " reads position ", position,
          " in block ", IndexOf(blocks[block]), " and finds position ", slot->position,
          slot->prefix == rows.prefixes[position] ? " of the same" : " of another",
          " prefix, salt ", slot->salt));
    }
  }
  return absl::OkStatus();
}

WriteGuard::WriteGuard(int num_blocks) {
  for (auto& uses : uses_) uses.resize(num_blocks);
}

absl::Status WriteGuard::Launch(const StepPlan& plan, int block_size, int slot) {
  auto& uses = uses_[slot];
  for (const ScheduledSequence& sequence : plan.sequences) {
    int block_index = 0;
    for (const BlockId block : plan.BlocksOf(sequence)) {
      Use& use = uses[IndexOf(block)];
      touched_[slot].push_back(block);
      if (use.num_readers > 0 && use.reader == sequence.id) {
        return absl::InternalError(
            absl::StrCat("a sequence names block ", IndexOf(block), " twice"));
      }
      use.reader = sequence.id;
      ++use.num_readers;
      use.written = use.written || (++block_index) * block_size > sequence.context_length;
    }
  }
  const auto& others = uses_[1 - slot];
  for (const BlockId block : touched_[slot]) {
    const Use& use = uses[IndexOf(block)];
    const Use& other = others[IndexOf(block)];
    const bool alone =
        use.num_readers == 1 &&
        (other.num_readers == 0 || (other.num_readers == 1 && other.reader == use.reader));
    if (use.written && !alone) {
      return absl::InternalError(
          absl::StrCat("block ", IndexOf(block), " is written while another sequence names it"));
    }
  }
  return absl::OkStatus();
}

void WriteGuard::Retire(int slot) {
  for (const BlockId block : touched_[slot]) uses_[slot][IndexOf(block)] = {};
  touched_[slot].clear();
}

}  // namespace thresher::simulation
