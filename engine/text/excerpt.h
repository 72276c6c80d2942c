// The beginning of a text that somebody else wrote, short enough for a message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace thresher {

// What an error quotes of a client's text at most.
inline constexpr std::size_t kExcerptBytes = 64;

// The text itself if it has at most `max_bytes`; otherwise the whole code points among its first
// `max_bytes`, and "…".
std::string Excerpt(std::string_view text, std::size_t max_bytes = kExcerptBytes);

}  // namespace thresher
