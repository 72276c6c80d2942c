#include "server/config/builtin_levels.h"

#include <utility>

namespace thresher {
namespace {

AttentionChoice LevelOf(const char* name, double k, double mu) {
  return {.level = name,
          .prefill = {"stem", {{"mu", mu}, {"beta", 0.2}}},
          .decode = {"top_theta", {{"k", k}}}};
}

}  // namespace

std::vector<AttentionChoice> BuiltInLevels() {
  // Chosen on real text, see tests/golden/evaluation: no budget of blocks held light's bounds.
  AttentionChoice light = LevelOf("light", 768, 1);
  light.prefill = {};
  return {AttentionChoice{}, std::move(light), LevelOf("balanced", 320, 0.7),
          LevelOf("aggressive", 128, 0.7)};
}

}  // namespace thresher
