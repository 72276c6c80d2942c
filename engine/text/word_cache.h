// Remembers the tokens of short, common words.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "scheduler/ids.h"

namespace thresher {

// Direct-mapped and of fixed size (1 MiB): a new word takes the place of the old one, so that no
// input makes it grow. Any thread; a lock covers a fraction of the slots.
class WordCache final {
 public:
  WordCache();
  // Appends the word's ids; false if it is not there.
  bool Find(std::string_view word, std::uint64_t hash, std::vector<TokenId>& ids) const;
  // Ids from `first` to the end are the word's. Nothing happens for a long word.
  void Insert(std::string_view word, std::uint64_t hash, const std::vector<TokenId>& ids,
              std::size_t first);
  static bool Fits(std::string_view word) { return word.size() <= kMaxWordBytes; }

 private:
  static constexpr std::size_t kMaxWordBytes = 30;
  static constexpr std::size_t kMaxIds = 8;
  static constexpr std::size_t kNumSlots = 1 << 14;
  static constexpr std::size_t kNumLocks = 64;

  struct Slot {                  // one cache line
    std::uint8_t num_bytes = 0;  // 0: free
    std::uint8_t num_ids = 0;
    std::array<char, kMaxWordBytes> word;
    std::array<TokenId, kMaxIds> ids;
  };

  std::unique_ptr<Slot[]> slots_;
  mutable std::array<std::mutex, kNumLocks> locks_;
};

}  // namespace thresher
