// Reads thresholds in the text format that the method's authors publish, to reproduce their
// figures.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/attention/threshold_contents.h"
#include "engine/model/model_config.h"

namespace thresher {

// `thresholds`: lines "L<layer>_H<head>:<n> <theta> <num_samples> <k>", one k for each layer;
// `denominators` (may be empty): the same without k, Σ exp(s − m) over dropped keys. θ is in units
// of s, for kPost a probability (which becomes its logarithm). The table looks up the nearest n, as
// the authors do: where heads were calibrated at different n, every length from the first to the
// last becomes a point of the grid. A layer's θ stands at each k of the grid, since it has only
// one. InvalidArgument naming the line; FailedPrecondition if a layer or head of the model is
// missing.
absl::StatusOr<ThresholdContents> ImportPublishedThresholds(std::string_view thresholds,
                                                            std::string_view denominators,
                                                            ThresholdPlacement placement,
                                                            const ModelConfig& config,
                                                            ModelFingerprint fingerprint);

}  // namespace thresher
