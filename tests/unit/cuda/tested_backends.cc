// A GPU, with products in bf16 and in f32.
#include "tests/support/tested_backends.h"

namespace thresher {

std::span<const BackendVariant> TestedBackends() {
  static constexpr BackendVariant kVariants[] = {{DeviceKind::kCuda, {.full_precision = false}},
                                                 {DeviceKind::kCuda, {.full_precision = true}}};
  return kVariants;
}

}  // namespace thresher
