// Weights of the CPU twin and the products with them. The ops of the CPU backend call these
// functions; nothing else does.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/weight_arena.h"
#include "kernels/device/dtype.h"
#include "kernels/device/tensor_view.h"
#include "kernels/ops/packed_weight.h"

namespace thresher {

// Products of up to this many rows of input use the panels of a weight that has them. On one core
// of a Zen 4, panels and oneDNN do 198 and 162 GFLOP/s with 16 rows, 198 and 188 with 32, 194 and
// 205 with 64 (Q4_1 weights from memory, bf16 input).
inline constexpr std::int64_t kMaxPanelRows = 32;

// What multiplies many rows of input. kFastest is oneDNN for bf16 input, where the build has it and
// it accepts bf16, and the folder's own kernels for f32 input, where those read 4- or 8-bit weights
// at 1.0 (AVX-512) to 1.5 (AVX2) times the speed of oneDNN on f32 weights, in an eighth of the
// memory. kOneDnn asks for oneDNN wherever it can serve, kBuiltIn never. kAsFewRows gives any
// number of rows the products of few, so that a row's bits never depend on how many there are.
enum class ManyRowsGemm { kFastest, kOneDnn, kBuiltIn, kAsFewRows };

// How weights are packed and multiplied; the same value for all weights of a backend.
struct CpuGemmOptions {
  CpuIsa isa = CpuIsa::kAvx2;  // at most what the machine has
  ManyRowsGemm many_rows = ManyRowsGemm::kFastest;
  bool full_precision = false;  // f32 weights and inputs, quantised weights dequantised exactly
};

// Element type of a product's input: bf16 with kAvx512Bf16 unless full_precision, else f32.
DType CpuGemmInputDType(const CpuGemmOptions& options);

// One matrix packed for products, or one table of rows to look up. Immutable after packing, so
// any thread may read it.
//
// A matrix holds up to two forms:
//   panels   tiles of 16 output rows, in 4 or 8 bits where the source is quantised. They serve f32
//            input always, bf16 input for few rows, where the time is that of reading the weight;
//   oneDNN   bf16 in oneDNN's own layout, for many rows of bf16 input.
// A form that the options or the build never multiply is not made.
class CpuWeight final : public PackedWeight {
 public:
  struct Forms;  // defined in cpu_weight.h, for the files that multiply

  explicit CpuWeight(std::unique_ptr<Forms> forms);
  ~CpuWeight() override;

  std::int64_t rows() const override;
  std::int64_t cols() const override;
  std::int64_t num_bytes() const override;  // 0 for a table: its bytes belong to the caller
  std::int64_t BytesRead(std::int64_t num_rows) const override;
  const Forms& forms() const { return *forms_; }

 private:
  std::unique_ptr<Forms> forms_;
};

// Packs the parts, stacked along the output rows. The bytes may be unmapped afterwards.
// The packed weight may outlive the arena.
// InvalidArgument, naming the part and the value, if a part has no bytes, a shape that is not
// positive or not whole blocks, a row or column out of range, or other columns than the first part;
// ResourceExhausted if the memory cannot be had.
absl::StatusOr<std::unique_ptr<CpuWeight>> PackCpuWeight(std::span<const WeightSource> parts,
                                                         const CpuGemmOptions& options,
                                                         WeightArena& arena, ThreadTeam& team);

// A table that reads source.bytes at each look-up: they must outlive it. row_order is copied.
// Errors as PackCpuWeight.
absl::StatusOr<std::unique_ptr<CpuWeight>> PackCpuEmbedding(const WeightSource& source);

// out[i] = table[ids[i]], dequantised exactly.   ids [n], out f32 [n, cols]
// InvalidArgument if an id is not a row, a shape disagrees or the weight is no table.
absl::Status EmbedRows(const CpuWeight& table, std::span<const std::int32_t> ids, TensorView out,
                       ThreadTeam& team);

// Memory that products write on the way, and oneDNN's compiled products. One thread at a time;
// serves any weight packed with the same options.
class GemmScratch final {
 public:
  struct Parts;  // defined in gemm_scratch.h, for the files that multiply

  GemmScratch(const CpuGemmOptions& options, int num_threads);
  GemmScratch(GemmScratch&&) noexcept;
  GemmScratch& operator=(GemmScratch&&) noexcept;
  ~GemmScratch();

  // Makes room for products of at most `max_rows` rows of input with weights of at most `max_cols`
  // columns. Keeps what is already larger. ResourceExhausted if the memory cannot be had.
  absl::Status Reserve(std::int64_t max_rows, std::int64_t max_cols);
  Parts& parts() { return *parts_; }

 private:
  std::unique_ptr<Parts> parts_;
};

// out = x · weightᵀ + bias.
//   x    [n, cols], CpuGemmInputDType;   bias f32 [rows] or null data;   out f32 [n, rows]
// A row of `out` depends on its own row of x only. With f32 input, and with kAsFewRows, it is
// bitwise the same for every n. With bf16 input it is otherwise so for every n up to kMaxPanelRows,
// and above that as far as oneDNN keeps to one order of sums; the two ranges round differently, as
// oneDNN's weights are rounded to bf16. Allocates nothing of its own up to kMaxPanelRows; above,
// oneDNN compiles a product the first time that n and shape meet, and keeps small books of its
// own during a call. InvalidArgument if a dtype or shape disagrees or the weight is a table;
// FailedPrecondition if the scratch is too small. Each thread of the team takes one contiguous
// slice of output rows.
absl::Status CpuMatMul(TensorView x, const CpuWeight& weight, TensorView bias, TensorView out,
                       GemmScratch& scratch, ThreadTeam& team);

}  // namespace thresher
