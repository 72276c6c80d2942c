// What a benchmark asks the machine about memory.
#pragma once

#include <cstdint>

namespace thresher {

// The most memory the process has held so far (VmHWM); 0 where the system does not tell.
std::int64_t PeakResidentBytes();

// Bytes a second that `num_threads` threads (0: all cores) read from memory together: the best of
// several passes over more memory than any cache holds. Takes about a second.
double ReadBandwidth(int num_threads);

}  // namespace thresher
