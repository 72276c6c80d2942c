// How fast a device moves memory: what the floors of a benchmark are made of.
#pragma once

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace thresher {

// Bytes a second that the device reads and writes, together, in a pass over rows that does almost
// nothing else: the best of several, over 1 GiB. Takes a CPU, whose reads alone are better measured
// by ReadBandwidth, some seconds. ResourceExhausted if the memory cannot be had.
absl::StatusOr<double> PassBandwidth(Backend& backend);

}  // namespace thresher
