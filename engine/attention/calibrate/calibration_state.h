// A calibration that was interrupted, as a file beside its output.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/attention/calibrate/score_statistics.h"

namespace thresher {

struct CalibrationState {
  std::uint64_t inputs = 0;  // hash of all that decides the result
  std::int64_t next_window = 0;
  ScoreStatistics statistics;
};

// Empty bins are left out. Errors as WriteWholeFile.
absl::Status WriteCalibrationState(const CalibrationState& state, const std::string& path);

// Bit for bit what was written. NotFound if there is none; FailedPrecondition if it is of other
// inputs; InvalidArgument if it is damaged. Messages name the path.
absl::StatusOr<CalibrationState> ReadCalibrationState(const std::string& path, std::uint64_t inputs,
                                                      const StatisticsShape& shape);

}  // namespace thresher
