// Packs a weight, multiplies with it and hands the result back, for tests and benchmarks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/parallel.h"

namespace thresher {

// Every combination of options that this machine and build can run.
std::vector<CpuGemmOptions> AllGemmOptions();
// "avx2 built-in full-precision"
std::string Describe(const CpuGemmOptions& options);

// Rows of input in the type that the options ask for.
class GemmInput final {
 public:
  // values [any, cols]
  GemmInput(const std::vector<float>& values, std::int64_t cols, const CpuGemmOptions& options);
  // Valid as long as this.
  TensorView Rows(std::int64_t first, std::int64_t count);

 private:
  std::int64_t cols_;
  DType dtype_;
  std::vector<float> floats_;
  std::vector<std::uint16_t> halves_;
};

class GemmProduct final {
 public:
  // Aborts if the weight cannot be packed.
  GemmProduct(std::span<const WeightSource> parts, const CpuGemmOptions& options,
              int num_threads = 2);

  // [x rows, weight rows]. bias [weight rows] or empty. Aborts if the product fails or writes past
  // its output.
  std::vector<float> Multiply(TensorView x, std::span<const float> bias);

  const CpuWeight& weight() const { return *weight_; }

 private:
  ThreadTeam team_;
  WeightArena arena_;
  GemmScratch scratch_;
  std::unique_ptr<CpuWeight> weight_;
};

}  // namespace thresher
