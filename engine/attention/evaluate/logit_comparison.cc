#include "engine/attention/evaluate/logit_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace thresher {
namespace {

struct Normaliser {
  double log_sum = 0;
  std::size_t top = 0;
};

// ln Σ exp(x): exponentials in float, which are within 1e-7 of themselves, added up in double.
Normaliser Normalise(std::span<const float> logits) {
  Normaliser result;
  result.top =
      static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  const float largest = logits[result.top];
  double sum = 0;
  for (const float logit : logits) sum += static_cast<double>(std::exp(logit - largest));
  result.log_sum = static_cast<double>(largest) + std::log(sum);
  return result;
}

}  // namespace

LogitComparison CompareLogits(std::span<const float> dense, std::span<const float> sparse,
                              std::int32_t target) {
  const Normaliser of_dense = Normalise(dense), of_sparse = Normalise(sparse);
  const auto at = static_cast<std::size_t>(target);
  LogitComparison result;
  result.dense_nll = of_dense.log_sum - static_cast<double>(dense[at]);
  result.sparse_nll = of_sparse.log_sum - static_cast<double>(sparse[at]);
  result.same_top = of_dense.top == of_sparse.top;
  // Σ p (ln p − ln q) with ln p − ln q = (x − y) − (ln Z − ln Z'), free of the cancellation of two
  // large logarithms.
  const double shift = of_dense.log_sum - of_sparse.log_sum;
  const float dense_log_sum = static_cast<float>(of_dense.log_sum);
  double kl = 0;
  for (std::size_t i = 0; i < dense.size(); ++i) {
    const double p = static_cast<double>(std::exp(dense[i] - dense_log_sum));
    kl += p * (static_cast<double>(dense[i]) - static_cast<double>(sparse[i]) - shift);
  }
  result.kl = std::max(0.0, kl);
  return result;
}

}  // namespace thresher
