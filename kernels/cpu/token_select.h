// Picks the most likely tokens of a row without sorting the vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/row_ops.h"

namespace thresher {

// `value` is a logit or an unnormalised probability; the order of tokens is the same.
struct Candidate {
  float value = 0;
  std::int32_t token = 0;
};

// More likely first, ties to the lowest id: a strict total order of a row's tokens.
inline bool Before(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.token < b.token);
}

// Buffers of one thread.
struct SelectScratch {
  // Makes room for rows of `n` values.
  void Reserve(std::int64_t n);

  std::vector<float> block_max;
  std::vector<float> ordered_max;
  std::vector<Candidate> ordered;
};

// Fills `top` with the min(k, number above −infinity) most likely tokens, most likely first.
//   values [n], no NaN
// Cost: two passes over n, and a selection among the few elements not below the k-th block maximum.
void SelectTopK(const RowOps& ops, std::span<const float> values, std::int64_t k,
                SelectScratch& scratch, std::vector<Candidate>& top);

// Removes from `candidates` (ascending by token) all but the smallest set of most likely ones whose
// values sum to at least `mass`; at least one stays. Keeps the order. Expected cost is linear.
void KeepMass(double mass, SelectScratch& scratch, std::vector<Candidate>& candidates);

}  // namespace thresher
