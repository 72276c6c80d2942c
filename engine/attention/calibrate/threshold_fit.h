// A threshold table from the statistics of a calibration.
#pragma once

#include "engine/attention/calibrate/score_statistics.h"
#include "engine/attention/model_fingerprint.h"
#include "engine/attention/threshold_contents.h"

namespace thresher {

// θ(k) is the inverse of the pooled survival function at each length, so that the mean number of
// survivors is k on the calibration's own rows. Where a length has no rows, or k is no less than
// it, θ is interpolated in ln n, or extrapolated. The slope beyond the last length is a
// least-squares line over the last three octaves, those lengths that are at least 2 k. θ never
// rises with k, up to 64 times the longest length. At least one length has samples.
ThresholdContents FitThresholds(const ScoreStatistics& statistics, ModelFingerprint fingerprint);

}  // namespace thresher
