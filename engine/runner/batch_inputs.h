// One step's rows as a model reads them.
#pragma once

#include <cstdint>
#include <span>

#include "scheduler/ids.h"

namespace thresher {

struct BatchInputs {
  std::span<const TokenId> token_ids;          // [num_tokens]
  std::span<const std::int32_t> positions;     // [num_tokens]
  std::span<const std::int64_t> slot_mapping;  // [num_tokens], see TransformerOps
  int num_tokens() const { return static_cast<int>(token_ids.size()); }
};

}  // namespace thresher
