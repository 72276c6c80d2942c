// What every tokenizer asks of a text before it looks at it.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"

namespace thresher {

// Offsets within normalized text, which may be three times as long, fit 32 bits.
inline constexpr std::size_t kMaxTextBytes = std::size_t{256} << 20;

// InvalidArgument if the text is longer than kMaxTextBytes or not UTF-8, naming the byte.
absl::Status CheckText(std::string_view text);

}  // namespace thresher
