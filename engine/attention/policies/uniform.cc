// The best blocks by their scores alone, as many in every row as cost what Stem costs over the
// prompt: what Stem's decay is compared with.
#include "engine/attention/policies/block_list_kind.h"
#include "engine/attention/policies/policies.h"

namespace thresher {

const PolicyKind& UniformPolicyKind() {
  static const BlockListKind kind(
      {.description = {.name = "uniform",
                       .prefill = true,
                       .help =
                           "Reads the same budget of the best 128-token blocks in every row, at "
                           "the cost of stem."},
       .form = BudgetForm::kUniformAtCodeCost});
  return kind;
}

}  // namespace thresher
