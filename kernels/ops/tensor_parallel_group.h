// The ranks that share one model, and what they exchange.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kernels/device/device.h"
#include "kernels/device/tensor_view.h"

namespace thresher {

// One object per rank; every rank calls the same sequence of operations. Unavailable if another
// rank has failed or called Abort: no call waits for ever on a rank that is gone.
class TensorParallelGroup {
 public:
  virtual ~TensorParallelGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // tensor := sum over the ranks, added in rank order, so that every rank holds the same bits. f32;
  // of a group of one, any type.
  virtual absl::Status AllReduceSum(TensorView tensor, Stream& stream) = 0;
  // out [n, size · c] := the ranks' in [n, c] side by side in rank order. f32.
  virtual absl::Status AllGatherColumns(TensorView in, TensorView out, Stream& stream) = 0;
  // Every rank gets rank 0's bytes.
  virtual absl::Status Broadcast(std::span<std::byte> bytes, Stream& stream) = 0;
  // Makes every present and later call of every rank return Unavailable. Any thread.
  virtual void Abort() = 0;
};

}  // namespace thresher
