// The row lengths and targets of a calibrated table, and which rows speak for which length.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace thresher {

// 64 … max_length at ratio 2^¼; the last one is max_length itself. max_length ≥ 64.
std::vector<std::int32_t> LengthGrid(int max_length);
// 16 … 4,096 at ratio √2, below `longest`; at least 16 itself.
std::vector<std::int32_t> TargetGrid(int longest);

// Row lengths of a grid point, inclusive: an eighth of an octave to either side. Nothing is longer
// than the last point, so that one takes only a sixteenth, which halves its bias towards short
// rows.
struct LengthBucket {
  std::int32_t shortest = 0;
  std::int32_t longest = 0;
};
std::vector<LengthBucket> BucketsOf(std::span<const std::int32_t> lengths);

// Rows to observe of one window, ascending, and each one's bucket.
struct RowSample {
  std::vector<std::int32_t> rows;  // row r sees r + 1 keys
  std::vector<std::int32_t> buckets;
};

// At most `limits[bucket]` rows of each bucket, drawn without replacement from the rows of a window
// of `window_length` tokens. A pure function of its arguments.
RowSample SampleRows(std::span<const LengthBucket> buckets, std::span<const std::int64_t> limits,
                     int window_length, std::uint64_t seed);

}  // namespace thresher
