// Work that asks for more memory than there is fails by itself and not with the process.
#pragma once

#include <new>
#include <stdexcept>

#include "absl/status/status.h"

namespace thresher {

// Runs `work`, a function without arguments. Internal if the memory that it asks for is not there;
// what it had made by then is destroyed.
template <typename Work>
absl::Status WithinMemory(const Work& work) {
  try {
    work();
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
    // Longer than any text or list can be.
  }
  return absl::InternalError("there is not enough memory for this request");
}

}  // namespace thresher
