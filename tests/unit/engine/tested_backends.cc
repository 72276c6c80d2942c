// The engine's tests run on the CPU.
#include "tests/support/tested_backends.h"

namespace thresher {

std::span<const BackendVariant> TestedBackends() {
  static constexpr BackendVariant kVariants[] = {{}};
  return kVariants;
}

}  // namespace thresher
