// The model runner: a rank runner on a worker thread for each rank.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/model/causal_lm.h"
#include "engine/model/model_files.h"
#include "engine/runner/model_runner.h"
#include "engine/runner/rank_runner.h"
#include "kernels/backend.h"

namespace thresher {

struct ParallelRunnerOptions {
  DeviceKind device = DeviceKind::kCpu;
  BackendOptions backend;  // num_threads: of all ranks together; 0: all usable cores
  int tensor_parallel = 1;
  RankRunnerOptions rank;  // batch_invariant is the backend's
};

// Opens a device for each rank and loads the model on all of them at the same time. `files`
// outlives the runner; `progress` is called on rank 0's thread. `num_blocks`, if not null, is set
// to the blocks that every rank's cache has. The first rank's error, as the backend, the model or
// the cache gives it.
absl::StatusOr<std::unique_ptr<ModelRunner>> CreateParallelRunner(
    const ModelFiles& files, const ParallelRunnerOptions& options, const LoadProgress& progress,
    int* num_blocks = nullptr);

}  // namespace thresher
