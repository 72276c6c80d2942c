// Makes a model's threshold table: runs windows of text through it, densely, one after the other,
// and observes scores of sampled rows. One pass for all k.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/attention/calibrate/calibration_windows.h"
#include "engine/attention/threshold_contents.h"
#include "engine/model/model_files.h"
#include "kernels/backend.h"

namespace thresher {

struct CalibrationOptions {
  std::string output;        // path of the table; the state of an unfinished run is `output`.state
  int rows_per_bucket = 64;  // observed of each length in each window, at most
  int step_tokens = 2048;    // rows of one forward
  std::uint64_t seed = 1;
  DType kv_dtype = DType::kBF16;
  absl::Duration checkpoint = absl::Seconds(60);  // between two writes of the state; 0: each window
  BackendOptions backend = {};                    // of the CPU
  // InvalidArgument naming the option and its limit.
  absl::Status Validate() const;
};

struct CalibrationProgress {
  int window = 0;  // windows done
  int num_windows = 0;
  double fraction = 0;          // of all work
  double resumed_fraction = 0;  // of it that an earlier run did
};
// Called at the start and after each step, on the calling thread. False: stop after this window.
using CalibrationObserver = std::function<bool(const CalibrationProgress&)>;

struct CalibrationReport {
  ThresholdContents table;
  int num_windows = 0;
  std::int64_t num_tokens = 0;
  double outside_share = 0;  // of scores that the histograms' range does not hold
};

// Lengths with fewer rows than this are thin: a threshold's k̃ then varies by several per cent.
inline constexpr int kThinSamples = 200;

// A path can be written: its folder exists and takes files. Leaves nothing behind.
absl::Status CheckWritable(const std::string& path);

// All windows have the same length, at least 64 tokens and at most the model's context. A state
// file of the same inputs is taken up where it ended, with a result that is the same bit by bit;
// one of other inputs, or a damaged one, is an error that says how to go on; FailedPrecondition too
// while another calibration, of whatever process, writes `output`. Writes the table and removes the
// state. Mean values, which centred norms need first, are those of the first eighth of
// the windows. Cancelled if the observer stopped it; errors of loading and writing as theirs. The
// calling thread is bound to the backend.
absl::StatusOr<CalibrationReport> Calibrate(const ModelFiles& files,
                                            std::span<const TextWindow> windows,
                                            const CalibrationOptions& options,
                                            const CalibrationObserver& observer);

}  // namespace thresher
