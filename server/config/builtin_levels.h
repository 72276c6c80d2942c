// The attention levels that every server has.
#pragma once

#include <vector>

#include "engine/attention/attention_choice.h"

namespace thresher {

// "off", which is dense, then the others from light to aggressive. An operator may replace all but
// "off" and add more. Those but "off" need a threshold table.
std::vector<AttentionChoice> BuiltInLevels();

}  // namespace thresher
