// One group's lists of blocks: budgets once a step, lists from the backend's selector once a layer.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/attention/policies/block_list_kind.h"

namespace thresher {

// The recipe outlives the policy.
absl::StatusOr<std::unique_ptr<AttentionPolicy>> CreateBlockListPolicy(
    const BlockListRecipe& recipe, const PolicyResources& resources);

}  // namespace thresher
