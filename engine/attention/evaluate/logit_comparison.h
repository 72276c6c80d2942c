// How far one next-token distribution is from another, and what both make of the token that came.
#pragma once

#include <cstdint>
#include <span>

namespace thresher {

struct LogitComparison {
  double dense_nll = 0;  // −ln p of the token, in nats
  double sparse_nll = 0;
  double kl = 0;          // KL(dense ‖ sparse), in nats
  bool same_top = false;  // both have the same most likely token (of equals, the lowest id)
};

// Logits of one row each, [vocab_size]; target below vocab_size. Sums are double.
LogitComparison CompareLogits(std::span<const float> dense, std::span<const float> sparse,
                              std::int32_t target);

}  // namespace thresher
