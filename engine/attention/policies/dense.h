// Every query reads every cached position.
#pragma once

#include <memory>

#include "engine/attention/attention_policy.h"

namespace thresher {

std::unique_ptr<AttentionPolicy> CreateDensePolicy();

}  // namespace thresher
