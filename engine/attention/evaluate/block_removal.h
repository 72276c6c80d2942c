// What a row's output loses if it does not read one of its blocks of keys: the exact order that a
// score of blocks is judged by.
#pragma once

#include <span>
#include <vector>

namespace thresher {

struct BlockRemoval {
  std::vector<double> output;  // [head_dim], dense
  // [num_blocks], of each block: its softmax mass, and ‖O − O without it‖, the rest renormalised.
  std::vector<double> mass;
  std::vector<double> error;
  std::vector<double> partial;  // [num_blocks, head_dim], Σ of weight · value, summing to `output`
};

// With p the mass of a block and o its partial output the error is ‖o − p O‖ / (1 − p): one dense
// pass gives every removal.
//   scores [n], q·k · scale; values [n, head_dim]; blocks of `block` keys from key 0 on
BlockRemoval RemoveEachBlock(std::span<const double> scores, std::span<const float> values,
                             int head_dim, int block);

// Kendall's tau-b of two orders, −1 … 1; 0 if one of them is all ties. Equally long; quadratic.
double KendallTau(std::span<const double> a, std::span<const double> b);

}  // namespace thresher
