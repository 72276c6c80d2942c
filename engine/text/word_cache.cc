// The slot and the lock of a word both follow from its hash.
#include "engine/text/word_cache.h"

#include <algorithm>
#include <cstring>

namespace thresher {

WordCache::WordCache() : slots_(std::make_unique<Slot[]>(kNumSlots)) {}

bool WordCache::Find(std::string_view word, std::uint64_t hash, std::vector<TokenId>& ids) const {
  const std::size_t index = hash % kNumSlots;
  const std::lock_guard<std::mutex> lock(locks_[index % kNumLocks]);
  const Slot& slot = slots_[index];
  if (slot.num_bytes != word.size() || word.empty() ||
      std::memcmp(slot.word.data(), word.data(), word.size()) != 0) {
    return false;
  }
  ids.insert(ids.end(), slot.ids.begin(), slot.ids.begin() + slot.num_ids);
  return true;
}

void WordCache::Insert(std::string_view word, std::uint64_t hash, const std::vector<TokenId>& ids,
                       std::size_t first) {
  const std::size_t num_ids = ids.size() - first;
  if (word.empty() || word.size() > kMaxWordBytes || num_ids > kMaxIds) return;
  const std::size_t index = hash % kNumSlots;
  const std::lock_guard<std::mutex> lock(locks_[index % kNumLocks]);
  Slot& slot = slots_[index];
  slot.num_bytes = static_cast<std::uint8_t>(word.size());
  slot.num_ids = static_cast<std::uint8_t>(num_ids);
  std::copy(word.begin(), word.end(), slot.word.begin());
  std::copy(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end(), slot.ids.begin());
}

}  // namespace thresher
