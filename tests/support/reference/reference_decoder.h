// A Llama-like decoder by plain loops in double over a whole sequence: no cache, no packing, no
// shards. The second opinion on the engine's decoder and on the loaders.
#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model_files.h"

namespace thresher::testing {

// Logits [token_ids.size(), vocab_size] of every position. Errors of ModelFiles::Weight.
absl::StatusOr<std::vector<double>> ReferenceLogits(const ModelFiles& files,
                                                    std::span<const TokenId> token_ids);

}  // namespace thresher::testing
