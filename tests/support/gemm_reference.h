// The double reference of products with weights, and the bound that a product keeps to it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops/packed_weight.h"

namespace thresher {

// A matrix in double, with the magnitude of what rounding acts on.
struct ReferenceWeight {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<double> values;      // [rows, cols]
  std::vector<double> magnitudes;  // [rows, cols]: |scale · integer| + |minimum|, or |value|
};

// Which weights are rounded to bf16, to nearest even, before they are multiplied.
enum class Bf16Rounding {
  kNone,
  kPlain,  // those of parts that are not whole groups of integers
  kAll,
};

// The selected rows and columns of the parts, stacked, as GGUF defines them.
ReferenceWeight MakeReference(std::span<const WeightSource> parts, Bf16Rounding rounding);

struct ReferenceProduct {
  std::vector<double> values;      // [num_rows, rows]
  std::vector<double> magnitudes;  // [num_rows, rows]: Σ |x| · magnitude + |bias|
};

// x [num_rows, cols]; bias [rows] or empty
ReferenceProduct MultiplyReference(const ReferenceWeight& weight, std::span<const float> x,
                                   std::int64_t num_rows, std::span<const float> bias);

// How far an f32 product may lie from the reference, as a multiple of the magnitudes. Each of the
// `cols` products is added with one rounding of at most u = 2^-24 of the partial sum, whatever the
// order; scaling by groups adds two roundings for each group of at least 16 columns; the sum of x
// over a group, the value's own rounding and the bias add less than 8 more. The sum of all is below
// (1.125 cols + 8) · u, and 1 + 2^-9 covers its higher powers for fewer than 20,000 columns.
double RelativeBound(std::int64_t cols);

}  // namespace thresher
