#include "engine/attention/evaluate/logit_comparison.h"

#include <algorithm>
#include <cmath>

namespace thresher {
namespace {

struct Normaliser {
  double log_sum = 0;
  std::size_t top = 0;
};

// ln Σ exp(x): exponentials in float, which are within 1e-7 of themselves, added up in double.
// `terms`, if given, are left as exp(x − the largest).
Normaliser Normalise(std::span<const float> logits, float* terms) {
  Normaliser result;
  result.top =
      static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  const float largest = logits[result.top];
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float term = std::exp(logits[i] - largest);
    sum += static_cast<double>(term);
    if (terms != nullptr) terms[i] = term;
  }
  result.log_sum = static_cast<double>(largest) + std::log(sum);
  return result;
}

}  // namespace

void DenseDistribution::Set(std::span<const float> logits) {
  logits_.assign(logits.begin(), logits.end());
  probabilities_.resize(logits.size());
  const Normaliser normaliser = Normalise(logits, probabilities_.data());
  log_sum_ = normaliser.log_sum;
  top_ = normaliser.top;
  const auto factor = static_cast<float>(std::exp(static_cast<double>(logits_[top_]) - log_sum_));
  for (float& probability : probabilities_) probability *= factor;
}

LogitComparison DenseDistribution::Compare(std::span<const float> logits,
                                           std::int32_t target) const {
  const Normaliser normaliser = Normalise(logits, nullptr);
  const auto at = static_cast<std::size_t>(target);
  LogitComparison result;
  result.dense_nll = log_sum_ - static_cast<double>(logits_[at]);
  result.sparse_nll = normaliser.log_sum - static_cast<double>(logits[at]);
  result.same_top = top_ == normaliser.top;
  // Σ p (ln p − ln q) = Σ p (x − y) − (ln Z − ln Z'): free of the cancellation of two large
  // logarithms.
  double sum = 0, mass = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto p = static_cast<double>(probabilities_[i]);
    sum += p * static_cast<double>(logits_[i] - logits[i]);
    mass += p;
  }
  result.kl = std::max(0.0, sum / mass - (log_sum_ - normaliser.log_sum));
  return result;
}

}  // namespace thresher
