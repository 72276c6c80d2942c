// A backend whose ops and attention kernels take tensors in host memory wherever it computes, so
// that one test covers every device.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace thresher {

// Each call copies its tensors to the device, waits, and copies them back; workspaces and weights
// stay there. Memory of device() is the device's own.
std::unique_ptr<Backend> MirrorBackend(std::unique_ptr<Backend> backend);

}  // namespace thresher
