// Runs a model over a sequence on one or more ranks, each a thread with a backend of its own.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/causal_lm.h"
#include "engine/model/model_files.h"
#include "kernels/backend.h"

namespace thresher::testing {

struct ModelRunOptions {
  DeviceKind device = DeviceKind::kCpu;
  int num_ranks = 1;
  bool full_precision = true;
  DType kv_dtype = DType::kF32;
  int chunk = 1 << 20;  // rows of a step at most
};

// Logits [tokens, vocab_size] of every position of each sequence, [rank][sequence]. The model is
// loaded once; sequences run one after the other. The first error of any rank.
using RankLogits = std::vector<std::vector<std::vector<float>>>;
absl::StatusOr<RankLogits> RunSequences(const ModelFiles& files,
                                        std::span<const std::vector<TokenId>> sequences,
                                        const ModelRunOptions& options);

// The same for one sequence: logits for each rank.
absl::StatusOr<std::vector<std::vector<float>>> RunModel(const ModelFiles& files,
                                                         const std::vector<TokenId>& token_ids,
                                                         const ModelRunOptions& options);

}  // namespace thresher::testing
