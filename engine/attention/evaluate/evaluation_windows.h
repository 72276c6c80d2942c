// The stretches of text that an evaluation runs.
#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/attention/calibrate/calibration_windows.h"

namespace thresher {

// `num_windows` windows of each text, spread evenly over it and apart, each of `length` tokens with
// the beginning token (if the tokenizer adds one) in front, and one more token, which the last
// position is to predict. InvalidArgument naming the text that is too short.
absl::StatusOr<std::vector<std::vector<TokenId>>> CutEvaluationWindows(
    const Tokenizer& tokenizer, std::span<const TextFile> texts, int length, int num_windows);

}  // namespace thresher
