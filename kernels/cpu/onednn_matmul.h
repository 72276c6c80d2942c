// oneDNN's product, for many rows of input: a weight in oneDNN's own layout, and the products
// compiled for it. Builds without oneDNN serve nothing. Keeps oneDNN's headers and exceptions out
// of the rest of the folder.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/weight_arena.h"
#include "kernels/cpu/weight_rows.h"

namespace thresher {

// Whether this build has oneDNN and it multiplies f32, or bf16 with the machine's bf16
// instructions. ONEDNN_MAX_CPU_ISA can forbid the latter on a machine that has them.
bool OneDnnMultipliesF32();
bool OneDnnMultipliesBf16();

class OneDnnWeight final {
 public:
  // Stacks the parts. bf16 weights are rounded to nearest; they take bf16 input, f32 weights f32.
  // Internal, with oneDNN's message, if it refuses; ResourceExhausted for want of memory.
  static absl::StatusOr<std::unique_ptr<OneDnnWeight>> Pack(std::span<const WeightRows> parts,
                                                            bool bf16, WeightArena& arena,
                                                            ThreadTeam& team);
  ~OneDnnWeight();

  std::int64_t num_bytes() const;

 private:
  friend class OneDnnProducts;
  struct Layout;
  explicit OneDnnWeight(std::unique_ptr<Layout> layout);
  std::unique_ptr<Layout> layout_;
};

// The compiled products, one for each shape, number of rows and presence of a bias; the oldest go
// when there are more than kMaxProducts. One thread at a time, a team's bound caller, as oneDNN
// runs on its OpenMP threads.
class OneDnnProducts final {
 public:
  // A product takes some 10 to 50 KiB and 0.1 ms to compile; a model has about five shapes.
  static constexpr int kMaxProducts = 512;

  OneDnnProducts();
  ~OneDnnProducts();

  // out [num_rows, rows] f32 = x [num_rows, cols] · weightᵀ + bias [rows] f32 or null. Internal,
  // with oneDNN's message, if it fails.
  absl::Status Multiply(const void* x, std::int64_t num_rows, const OneDnnWeight& weight,
                        const float* bias, float* out);

 private:
  struct Cache;
  std::unique_ptr<Cache> cache_;
};

}  // namespace thresher
