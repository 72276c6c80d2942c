#include "scheduler/block_pool.h"

#include "absl/strings/str_cat.h"
#include "scheduler/broken_invariant.h"

namespace thresher {

BlockPool::BlockPool(int num_blocks) : entries_(num_blocks), num_free_(num_blocks) {
  for (int i = 0; i + 1 < num_blocks; ++i) entries_[i].next = i + 1;
  first_free_ = num_blocks > 0 ? 0 : -1;
}

BlockId BlockPool::TakeFree() {
  if (first_free_ < 0) return kNoBlock;
  const std::int32_t index = first_free_;
  Entry& entry = entries_[index];
  first_free_ = entry.next;
  entry.next = -1;
  entry.references = 1;
  --num_free_;
  return BlockId{index};
}

BlockId BlockPool::TakeOldestCached() {
  if (oldest_ < 0) return kNoBlock;
  const std::int32_t index = oldest_;
  Unlink(index);
  entries_[index].references = 1;
  return BlockId{index};
}

void BlockPool::AddReference(BlockId block) {
  Entry& entry = entries_[IndexOf(block)];
  RequireInvariant(entry.references >= kCached, "a free block cannot be shared", IndexOf(block),
                   entry.references);
  if (entry.references == kCached) Unlink(IndexOf(block));
  ++entry.references;
}

void BlockPool::DropReference(BlockId block, bool keep) {
  Entry& entry = entries_[IndexOf(block)];
  RequireInvariant(entry.references > 0, "a block is released more often than it was taken",
                   IndexOf(block), entry.references);
  if (--entry.references > 0) return;
  if (keep) {
    LinkNewest(IndexOf(block));
    return;
  }
  entry.references = kFree;
  entry.next = first_free_;
  first_free_ = IndexOf(block);
  ++num_free_;
}

void BlockPool::Touch(BlockId block) {
  if (!is_cached(block)) return;
  Unlink(IndexOf(block));
  LinkNewest(IndexOf(block));
}

void BlockPool::LinkNewest(std::int32_t index) {
  Entry& entry = entries_[index];
  entry.previous = newest_;
  entry.next = -1;
  (newest_ < 0 ? oldest_ : entries_[newest_].next) = index;
  newest_ = index;
  ++num_cached_;
}

void BlockPool::Unlink(std::int32_t index) {
  Entry& entry = entries_[index];
  (entry.previous < 0 ? oldest_ : entries_[entry.previous].next) = entry.next;
  (entry.next < 0 ? newest_ : entries_[entry.next].previous) = entry.previous;
  entry.previous = entry.next = -1;
  --num_cached_;
}

absl::Status BlockPool::CheckInvariants() const {
  int free = 0;
  int cached = 0;
  for (const Entry& entry : entries_) {
    free += entry.references == kFree;
    cached += entry.references == kCached;
  }
  int linked_free = 0;
  for (std::int32_t i = first_free_; i >= 0 && linked_free <= num_blocks(); i = entries_[i].next) {
    if (entries_[i].references != kFree) {
      return absl::InternalError(absl::StrCat("block ", i, " is in the free list but not free"));
    }
    ++linked_free;
  }
  int linked_cached = 0;
  std::int32_t previous = -1;
  for (std::int32_t i = oldest_; i >= 0 && linked_cached <= num_blocks(); i = entries_[i].next) {
    if (entries_[i].references != kCached || entries_[i].previous != previous) {
      return absl::InternalError(absl::StrCat("block ", i, " is wrongly linked as cached"));
    }
    previous = i;
    ++linked_cached;
  }
  if (previous != newest_) return absl::InternalError("the newest cached block is not the last");
  if (free != num_free_ || linked_free != free || cached != num_cached_ ||
      linked_cached != cached) {
    return absl::InternalError(absl::StrCat("free blocks: ", free, " marked, ", linked_free,
                                            " linked, ", num_free_, " counted; cached: ", cached,
                                            " marked, ", linked_cached, " linked, ", num_cached_,
                                            " counted"));
  }
  return absl::OkStatus();
}

}  // namespace thresher
