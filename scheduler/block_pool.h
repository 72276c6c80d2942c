// Which block ids are free, owned by sequences, or cached: reference counts and the order of
// eviction. What a cached block contains is the prefix cache's matter.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/ids.h"

namespace thresher {

inline constexpr BlockId kNoBlock{-1};

inline constexpr int IndexOf(BlockId block) { return static_cast<int>(block); }

// Every block is in exactly one state. Allocates memory at construction only; every operation is
// O(1). Not thread-safe.
class BlockPool final {
 public:
  explicit BlockPool(int num_blocks);

  int num_blocks() const { return static_cast<int>(entries_.size()); }
  int num_free() const { return num_free_; }
  int num_cached() const { return num_cached_; }  // no reference; may be evicted
  int num_owned() const { return num_blocks() - num_free_ - num_cached_; }
  int num_available() const { return num_free_ + num_cached_; }
  int references(BlockId block) const { return entries_[IndexOf(block)].references; }
  bool is_cached(BlockId block) const { return entries_[IndexOf(block)].references == kCached; }

  BlockId oldest_cached() const { return BlockId{oldest_}; }

  // A free block with one reference, or kNoBlock if none is free.
  BlockId TakeFree();
  // The block that has been cached longest, with one reference, or kNoBlock if none is cached. The
  // caller forgets its content.
  BlockId TakeOldestCached();
  // Adds a reference to an owned or cached block.
  void AddReference(BlockId block);
  // Drops a reference. The last one makes the block cached, as the newest, if `keep`; else free.
  void DropReference(BlockId block, bool keep);
  // Makes a cached block the newest; no effect on an owned one.
  void Touch(BlockId block);

  // Internal: lists, counts and states agree.
  absl::Status CheckInvariants() const;

 private:
  static constexpr int kFree = -1;
  static constexpr int kCached = 0;
  // `previous` and `next` link cached blocks from oldest to newest; `next` alone links free ones.
  struct Entry {
    int references = kFree;
    std::int32_t previous = -1;
    std::int32_t next = -1;
  };

  void LinkNewest(std::int32_t index);
  void Unlink(std::int32_t index);

  std::vector<Entry> entries_;
  std::int32_t first_free_ = -1;
  std::int32_t oldest_ = -1;
  std::int32_t newest_ = -1;
  int num_free_ = 0;
  int num_cached_ = 0;
};

}  // namespace thresher
