// Sampling of rows that share their logits, with one of the backends of the binary.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <vector>

#include "kernels/ops/transformer_ops.h"
#include "tests/support/tested_backends.h"

namespace thresher {

class SamplingFixture : public testing::TestWithParam<BackendVariant> {
 protected:
  void SetUp() override {
    if (!MachineRuns(GetParam()))
      GTEST_SKIP() << "NOT RUN: this machine lacks the device or the instruction set";
    backend_ = MakeTestedBackend(GetParam());
    stream_ = backend_->device().CreateStream().value();
  }

  // One row for each element of `rows`, all with the same logits.
  std::vector<SampledToken> SampleAll(const std::vector<float>& logits,
                                      const std::vector<SamplingRow>& rows) {
    std::vector<float> all;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      all.insert(all.end(), logits.begin(), logits.end());
    }
    std::vector<SampledToken> out(rows.size());
    const absl::Status status = backend_->ops().Sample(
        TensorView::Of(all.data(), DType::kF32, static_cast<std::int64_t>(rows.size()),
                       static_cast<std::int64_t>(logits.size())),
        rows, out, *stream_);
    EXPECT_TRUE(status.ok()) << status;
    return out;
  }
  SampledToken SampleOne(const std::vector<float>& logits, const SamplingRow& row) {
    return SampleAll(logits, {row})[0];
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
};

// Softmax of logits / temperature over the tokens given, or all.
inline std::map<int, double> Softmax(const std::vector<float>& logits, double temperature,
                                     std::vector<int> tokens = {}) {
  if (tokens.empty()) {
    for (std::size_t i = 0; i < logits.size(); ++i) tokens.push_back(static_cast<int>(i));
  }
  std::map<int, double> result;
  double sum = 0;
  for (const int token : tokens) sum += result[token] = std::exp(logits[token] / temperature);
  for (auto& [token, probability] : result) probability /= sum;
  return result;
}

}  // namespace thresher
