// Weights of model files as doubles, by plain loops: what every faster reader is compared with.
#pragma once

#include <vector>

#include "kernels/ops/packed_weight.h"

namespace thresher::testing {

// [rows, cols] as wanted: row_order and the column range applied.
std::vector<double> Dequantize(const WeightSource& source);

}  // namespace thresher::testing
