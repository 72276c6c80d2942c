// A threshold table for a tiny model, whose thresholds keep some keys of each row and drop others.
#pragma once

#include "engine/attention/threshold_contents.h"

namespace thresher::testing {

// Of the model "llama31" below golden/models. k 4 … 64 and n 8 … 256; larger k, lower thresholds.
ThresholdContents TinyThresholds();

}  // namespace thresher::testing
