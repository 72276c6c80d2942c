#include "server/config/builtin_levels.h"

namespace thresher {
namespace {

AttentionChoice LevelOf(const char* name, double k, double mu) {
  return {.level = name,
          .prefill = {"stem", {{"mu", mu}, {"beta", 0.2}}},
          .decode = {"top_theta", {{"k", k}}}};
}

}  // namespace

std::vector<AttentionChoice> BuiltInLevels() {
  // Chosen on real text, see tests/golden/evaluation.
  return {AttentionChoice{}, LevelOf("light", 768, 0.7), LevelOf("balanced", 320, 0.7),
          LevelOf("aggressive", 128, 0.7)};
}

}  // namespace thresher
