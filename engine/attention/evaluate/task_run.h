// Lets the serving engine answer synthetic tasks, dense and under each choice.
#pragma once

#include "absl/status/status.h"
#include "engine/attention/evaluate/evaluate.h"

namespace thresher {

// Fills the task scores of the report, whose choices are those of the options.
absl::Status RunTasks(const EvaluateOptions& options, EvaluationReport& report);

}  // namespace thresher
