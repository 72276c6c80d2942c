// Stem: blocks ranked by sampled scores and the size of their values, under a budget that decays
// along the prompt. Source: arXiv 2603.06274.
#include "engine/attention/policies/block_list_kind.h"
#include "engine/attention/policies/policies.h"

namespace thresher {

const PolicyKind& StemPolicyKind() {
  static const BlockListKind kind(
      {.description =
           {.name = "stem",
            .prefill = true,
            .parameters = {{.name = "mu",
                            .minimum = 0.001,
                            .maximum = 1,
                            .default_value = 0.7,
                            .help =
                                "budget of the last block of queries as a share of the first's"},
                           {.name = "beta",
                            .minimum = 0,
                            .maximum = 10,
                            .default_value = 0.2,
                            .help = "weight of the size of values beside the scores of keys"}},
            .help = "Reads a decaying budget of the best 128-token blocks while the prompt is "
                    "computed; short prompts are dense."},
       .mu_index = 0,
       .beta_index = 1});
  return kind;
}

}  // namespace thresher
