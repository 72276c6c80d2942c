// Lists that bound what a choice of blocks can reach: the best that scores can say, and chance.
// Same budgets as Stem.
#include "engine/attention/policies/block_list_kind.h"
#include "engine/attention/policies/policies.h"

namespace thresher {
namespace {

BlockListRecipe RecipeOf(const char* name, const char* help, BlockScore score) {
  return {.description = {.name = name,
                          .prefill = true,
                          .parameters = {{.name = "mu",
                                          .minimum = 0.001,
                                          .maximum = 1,
                                          .default_value = 0.7,
                                          .help = "as stem's"}},
                          .help = help},
          .score = score,
          .evaluates_only = true,
          .mu_index = 0};
}

}  // namespace

const PolicyKind& OraclePolicyKind() {
  static const BlockListKind kind(RecipeOf(
      "oracle", "Reads the blocks of the most exact softmax mass.", BlockScore::kExactMass));
  return kind;
}

const PolicyKind& RandomPolicyKind() {
  static const BlockListKind kind(
      RecipeOf("random", "Reads blocks drawn at random.", BlockScore::kRandom));
  return kind;
}

}  // namespace thresher
