// The numbers that name things in the scheduler and above.
#pragma once

#include <cstdint>

namespace thresher {

enum class RequestId : std::int64_t {};
enum class BlockId : std::int32_t {};  // index of a block of the KV cache
enum class StepId : std::int64_t {};
using TokenId = std::int32_t;

}  // namespace thresher
