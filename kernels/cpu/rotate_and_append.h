// The CPU twin of TransformerOps::RotateAndAppend.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/row_ops.h"
#include "kernels/ops/transformer_ops.h"

namespace thresher {

// The arguments of TransformerOps::RotateAndAppend, shapes as there.
struct RotateAndAppendArguments {
  TensorView qkv;
  QkvShape shape;
  QkNorm norm;
  RotaryTable rotary;
  std::span<const std::int32_t> positions;
  std::span<const std::int64_t> slot_mapping;
  TensorView q;
  KvCacheLayer cache;
};

// InvalidArgument if a shape disagrees, a position is outside the rotary table or a slot outside
// the cache. Two rows must not have the same slot.
absl::Status CpuRotateAndAppend(const RotateAndAppendArguments& arguments, const RowOps& row_ops,
                                ThreadTeam& team);

}  // namespace thresher
