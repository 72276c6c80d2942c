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
  return {AttentionChoice{}, LevelOf("light", 512, 0.7), LevelOf("balanced", 256, 0.7),
          LevelOf("aggressive", 128, 0.7)};
}

}  // namespace thresher
