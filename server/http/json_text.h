// JSON written by hand onto a string: what every event of a stream is made of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace thresher {

// Appends a quoted string. Bytes that are not UTF-8 become U+FFFD, one each.
void AppendJsonString(std::string_view text, std::string& out);
// Appends the shortest decimal that reads back as the same float. Not finite: the nearest of
// ±9999, which is what peers send for a masked token, since JSON has no infinity.
void AppendJsonNumber(float value, std::string& out);
void AppendJsonInteger(std::int64_t value, std::string& out);

}  // namespace thresher
