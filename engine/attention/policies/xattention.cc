// The fewest blocks that cover a share of a row's sampled softmax. Source: XAttention, arXiv
// 2503.16428.
#include "engine/attention/policies/block_list_kind.h"
#include "engine/attention/policies/policies.h"

namespace thresher {

const PolicyKind& XAttentionPolicyKind() {
  static const BlockListKind kind(
      {.description = {.name = "xattention",
                       .prefill = true,
                       .help = "Reads the fewest 128-token blocks that cover a set share of the "
                               "estimated attention."},
       .score = BlockScore::kAntidiagonalSoftmax,
       .has_budget = false,
       .covers_mass = true});
  return kind;
}

}  // namespace thresher
