// Picks the blocks of one row from their scores.
#pragma once

#include <cstdint>

#include "kernels/ops/block_selector.h"

namespace thresher {

// Of a row's num_blocks blocks (its own is the last) writes those to read to `list`, ascending, and
// returns their number. Best first: higher scores, then later blocks; scores that are not finite
// come last, in order of blocks.
//   scores   [num_blocks]; null: forced blocks only
//   budget   how many of the best; with covered_mass: not read
//   order, is_chosen  [num_blocks], scratch
//   list     room for min(num_blocks, budget + sink_blocks + local_blocks); with covered_mass:
//            num_blocks
// Sink and local blocks are added to the best, or, with forced_in_budget or covered_mass, chosen
// first and counted.
int ChooseBlocks(const float* scores, int num_blocks, int budget, const BlockSelectionRules& rules,
                 std::uint64_t* order, std::uint8_t* is_chosen, std::uint16_t* list);

}  // namespace thresher
