// Bounds of the scores of whole pages of keys. Source: Quest, arXiv 2406.10774.
#pragma once

#include <cstdint>

namespace thresher {

// The smallest and the largest value of each channel over the keys of a page, for the pages of one
// KV head. A view of memory that the caller owns; one thread.
class PageBounds final {
 public:
  static std::int64_t Floats(int max_keys, int page_size, int head_dim) {
    return std::int64_t{2} * head_dim * NumPages(max_keys, page_size);
  }
  // memory [Floats(max_keys, page_size, head_dim)]
  PageBounds(float* memory, int max_keys, int page_size, int head_dim);

  // The next key [head_dim] in order of positions; the last page may be incomplete. At most
  // max_keys.
  void Add(const float* key);
  int num_keys() const { return num_keys_; }
  int num_pages() const { return NumPages(num_keys_, page_size_); }
  // bounds[p] := Σ_c max(q_c · smallest_c, q_c · largest_c) of page p, so not below the q·k of any
  // key that it holds, but for the rounding of f32 sums. q [head_dim], bounds [num_pages()].
  void Bound(const float* q, float* bounds) const;

 private:
  static int NumPages(int num_keys, int page_size) {
    return (num_keys + page_size - 1) / page_size;
  }

  // [head_dim, max_pages_]: pages are neighbours, so that a channel is one pass over them.
  float* const low_;
  float* const high_;
  const int page_size_, max_pages_, head_dim_;
  int num_keys_ = 0;
};

}  // namespace thresher
