// The CPU twin of TransformerOps::RotateAndAppend.
#pragma once

#include "absl/status/status.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/row_ops.h"
#include "kernels/ops/op_checks.h"

namespace thresher {

// InvalidArgument if a shape disagrees, a position is outside the rotary table or a slot outside
// the cache. Two rows must not have the same slot.
absl::Status CpuRotateAndAppend(const RotateAndAppendArguments& arguments, const RowOps& row_ops,
                                ThreadTeam& team);

}  // namespace thresher
