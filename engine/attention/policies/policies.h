// The policies by their names, each in its own file.
#pragma once

#include "engine/attention/policy_kind.h"

namespace thresher {

const PolicyKind& DensePolicyKind();       // every query reads every cached position
const PolicyKind& TopThetaPolicyKind();    // keys above a calibrated threshold
const PolicyKind& StemPolicyKind();        // a decaying budget of the best blocks
const PolicyKind& UniformPolicyKind();     // the same budget for every row
const PolicyKind& StreamingPolicyKind();   // first and last blocks
const PolicyKind& XAttentionPolicyKind();  // the fewest blocks that cover most of the score
const PolicyKind& OraclePolicyKind();      // the blocks of the most exact mass, to judge others
const PolicyKind& RandomPolicyKind();      // random blocks, likewise
const PolicyKind& IntervalPolicyKind();    // all but a range of blocks, likewise
const PolicyKind& TopKPolicyKind();        // the best keys of each head, likewise
const PolicyKind& QuestPolicyKind();       // the pages of keys with the best bounds, likewise

}  // namespace thresher
