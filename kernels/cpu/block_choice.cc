#include "kernels/cpu/block_choice.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

namespace thresher {
namespace {

// Ascending with the order of choice: the score's bits made monotone, then the block.
std::uint64_t RankOf(float score, int block) {
  std::uint64_t rank = 0;
  if (std::isfinite(score)) {
    const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);  // −0 counts as 0
    rank = bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
  }
  return rank << 32 | static_cast<std::uint32_t>(block);
}

int BlockOf(std::uint64_t rank) { return static_cast<int>(rank & 0xffffffffu); }

int MarkForced(int num_blocks, const BlockSelectionRules& rules, std::uint8_t* is_chosen) {
  const int sinks = std::min(rules.sink_blocks, num_blocks);
  const int first_local = std::max(sinks, num_blocks - rules.local_blocks);
  std::memset(is_chosen, 1, sinks);
  std::memset(is_chosen + first_local, 1, num_blocks - first_local);
  return sinks + num_blocks - first_local;
}

// The blocks of [order, end) that are the best `count` come first.
void PutBestFirst(std::uint64_t* order, std::uint64_t* end, std::int64_t count) {
  if (count > 0 && count < end - order) {
    std::nth_element(order, order + count - 1, end, std::greater<>());
  }
}

double MassOf(float score) { return std::isfinite(score) && score > 0 ? score : 0; }

// Adds the best blocks that are not chosen until the chosen ones hold the share of all mass.
void CoverMass(const float* scores, int num_blocks, double share, std::uint64_t* order,
               std::uint64_t* end, std::uint8_t* is_chosen) {
  double total = 0, covered = 0;
  for (int block = 0; block < num_blocks; ++block) {
    total += MassOf(scores[block]);
    if (is_chosen[block] != 0) covered += MassOf(scores[block]);
  }
  std::sort(order, end, std::greater<>());
  for (std::uint64_t* next = order; next != end && covered < share * total; ++next) {
    is_chosen[BlockOf(*next)] = 1;
    covered += MassOf(scores[BlockOf(*next)]);
  }
}

}  // namespace

int ChooseBlocks(const float* scores, int num_blocks, int budget, const BlockSelectionRules& rules,
                 std::uint64_t* order, std::uint8_t* is_chosen, std::uint16_t* list) {
  std::memset(is_chosen, 0, num_blocks);
  const bool covers = rules.covered_mass > 0;
  const bool forced_first = rules.forced_in_budget || covers || scores == nullptr;
  const int forced = forced_first ? MarkForced(num_blocks, rules, is_chosen) : 0;
  if (scores != nullptr) {
    std::uint64_t* end = order;
    for (int block = 0; block < num_blocks; ++block) {
      if (is_chosen[block] == 0) *end++ = RankOf(scores[block], block);
    }
    if (covers) {
      CoverMass(scores, num_blocks, rules.covered_mass, order, end, is_chosen);
    } else {
      const std::int64_t count = std::clamp<std::int64_t>(budget - forced, 0, end - order);
      PutBestFirst(order, end, count);
      for (std::int64_t i = 0; i < count; ++i) is_chosen[BlockOf(order[i])] = 1;
    }
  }
  if (!forced_first) MarkForced(num_blocks, rules, is_chosen);
  int length = 0;
  for (int block = 0; block < num_blocks; ++block) {
    if (is_chosen[block] != 0) list[length++] = static_cast<std::uint16_t>(block);
  }
  return length;
}

}  // namespace thresher
