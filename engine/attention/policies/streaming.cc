// The first and the last blocks of each row, whatever they hold.
#include "engine/attention/policies/block_list_kind.h"
#include "engine/attention/policies/policies.h"

namespace thresher {

const PolicyKind& StreamingPolicyKind() {
  static const BlockListKind kind(
      {.description = {.name = "streaming",
                       .prefill = true,
                       .help = "Reads the first and the latest 128-token blocks."},
       .score = BlockScore::kNone,
       .has_budget = false,
       .streams = true});
  return kind;
}

}  // namespace thresher
