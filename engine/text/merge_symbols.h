// The merge loop that byte-pair encoding and SentencePiece share: best pair first, leftmost of
// equals.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "scheduler/ids.h"

namespace thresher {

// A run of the piece being encoded. Symbols form a list in the order of the text.
struct MergeSymbol {
  TokenId id = -1;  // -1: no token has this text
  std::int32_t begin = 0, end = 0;
  std::int32_t previous = -1, next = -1;
  bool frozen = false;  // never merged
};

struct MergeCandidate {
  std::uint32_t rank;  // lower merges first
  std::int32_t left;   // index of the left symbol
  std::int32_t end;    // of the right symbol when this was found: a later merge makes it stale
  TokenId merged;
};

// Kept by the caller from piece to piece, so that a piece allocates nothing.
struct MergeScratch {
  std::vector<MergeSymbol> symbols;
  std::vector<MergeCandidate> heap;

  void Clear() { symbols.clear(); }
  void AddSymbol(TokenId id, std::int32_t begin, std::int32_t end, bool frozen = false) {
    const auto index = static_cast<std::int32_t>(symbols.size());
    if (index > 0) symbols.back().next = index;
    symbols.push_back({id, begin, end, index - 1, -1, frozen});
  }
};

// Merges until no rule applies. What is left is the list that starts at symbols[0]. A Rule has
//   bool Find(const MergeSymbol& left, const MergeSymbol& right,
//             std::uint32_t& rank, TokenId& merged) const
// Cost: O(n log n) for n symbols, whatever the text: each merge adds at most two candidates.
template <typename Rule>
void MergeSymbols(const Rule& rule, MergeScratch& scratch) {
  std::vector<MergeSymbol>& symbols = scratch.symbols;
  std::vector<MergeCandidate>& heap = scratch.heap;
  heap.clear();
  const auto worse = [](const MergeCandidate& a, const MergeCandidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  };
  const auto find = [&](std::int32_t left) {
    const std::int32_t right = symbols[left].next;
    MergeCandidate candidate;
    if (right < 0 || !rule.Find(symbols[left], symbols[right], candidate.rank, candidate.merged)) {
      return false;
    }
    candidate.left = left;
    candidate.end = symbols[right].end;
    heap.push_back(candidate);
    return true;
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) find(static_cast<std::int32_t>(i));
  std::make_heap(heap.begin(), heap.end(), worse);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), worse);
    const MergeCandidate candidate = heap.back();
    heap.pop_back();
    MergeSymbol& left = symbols[candidate.left];
    // A symbol that was merged into its left neighbour is empty.
    if (left.begin == left.end || left.next < 0) continue;
    MergeSymbol& right = symbols[left.next];
    // Symbols only grow, so the same two ends mean the same two symbols.
    if (right.end != candidate.end) continue;
    left.id = candidate.merged;
    left.end = right.end;
    left.next = right.next;
    right.begin = right.end;
    if (left.next >= 0) symbols[left.next].previous = candidate.left;
    if (left.previous >= 0 && find(left.previous)) {
      std::push_heap(heap.begin(), heap.end(), worse);
    }
    if (find(candidate.left)) std::push_heap(heap.begin(), heap.end(), worse);
  }
}

}  // namespace thresher
