#include "server/config/builtin_levels.h"

namespace thresher {
namespace {

AttentionChoice LevelOf(const char* name, double k) {
  return {.level = name, .prefill = {}, .decode = {"top_theta", {{"k", k}}}};
}

}  // namespace

// Chosen on real text, see tests/golden/evaluation. No budget of blocks held the bounds of light at
// 16k nor those of balanced at 32k, so their prompts are dense.
std::vector<AttentionChoice> BuiltInLevels() {
  AttentionChoice aggressive = LevelOf("aggressive", 128);
  aggressive.prefill = {"stem", {{"mu", 0.7}, {"beta", 0.2}}};
  return {AttentionChoice{}, LevelOf("light", 768), LevelOf("balanced", 320), aggressive};
}

}  // namespace thresher
