// How far next-token distributions are from a dense one, and what both make of the token that came.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace thresher {

struct LogitComparison {
  double dense_nll = 0;  // −ln p of the token, in nats
  double sparse_nll = 0;
  double kl = 0;          // KL(dense ‖ sparse), in nats
  bool same_top = false;  // both have the same most likely token (of equals, the lowest id)
};

// The dense distribution of one row, against which others are compared. One thread.
class DenseDistribution final {
 public:
  // Logits [vocab_size].
  void Set(std::span<const float> logits);
  // `logits` as long as the dense ones; target below vocab_size. Sums are double.
  LogitComparison Compare(std::span<const float> logits, std::int32_t target) const;

 private:
  std::vector<float> logits_, probabilities_;
  double log_sum_ = 0;
  std::size_t top_ = 0;
};

}  // namespace thresher
