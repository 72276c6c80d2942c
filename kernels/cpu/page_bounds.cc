#include "kernels/cpu/page_bounds.h"

#include <algorithm>

namespace thresher {

PageBounds::PageBounds(float* memory, int max_keys, int page_size, int head_dim)
    : low_(memory),
      high_(memory + std::int64_t{head_dim} * NumPages(max_keys, page_size)),
      page_size_(page_size),
      max_pages_(NumPages(max_keys, page_size)),
      head_dim_(head_dim) {}

void PageBounds::Add(const float* key) {
  const bool is_first = num_keys_ % page_size_ == 0;
  std::int64_t at = num_keys_ / page_size_;
  for (int c = 0; c < head_dim_; ++c, at += max_pages_) {
    low_[at] = is_first ? key[c] : std::min(low_[at], key[c]);
    high_[at] = is_first ? key[c] : std::max(high_[at], key[c]);
  }
  ++num_keys_;
}

void PageBounds::Bound(const float* q, float* bounds) const {
  const int count = num_pages();
  std::fill(bounds, bounds + count, 0.0f);
  for (int c = 0; c < head_dim_; ++c) {
    // The larger product is that with the largest value, or, for a negative query, the smallest.
    const float* corner = (q[c] >= 0 ? high_ : low_) + std::int64_t{c} * max_pages_;
    for (int page = 0; page < count; ++page) bounds[page] += q[c] * corner[page];
  }
}

}  // namespace thresher
