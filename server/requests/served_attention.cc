#include "server/requests/served_attention.h"

#include <iostream>

#include "absl/strings/str_cat.h"
#include "server/requests/attention_mapping.h"

namespace thresher {
namespace {

absl::Status CheckLevel(const ServerConfig& config, const std::string& name, const char* whose,
                        const AttentionCatalog& attention) {
  const AttentionChoice* level = FindLevel(config.levels, name);
  if (level == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(whose, " '", name, "' is not one of: ", LevelNames(config.levels)));
  }
  const absl::Status status = attention.Validate(*level);
  if (status.ok()) return status;
  return absl::FailedPreconditionError(
      absl::StrCat(whose, " '", name, "' cannot be served: ", std::string(status.message())));
}

}  // namespace

std::vector<PolicyDescription> ServedPolicies(const ServingState& state) {
  const absl::StatusOr<const ServedModel*> model = state.Model();
  if (model.ok()) return (*model)->engine.attention().Describe();
  const auto all = AttentionPolicies();
  return {all.begin(), all.end()};
}

const ThresholdTable* LoadedTable(const ServingState& state) {
  const absl::StatusOr<const ServedModel*> model = state.Model();
  return model.ok() ? (*model)->engine.attention().table() : nullptr;
}

std::vector<std::string> ServedLevels(const ServerConfig& config,
                                      const AttentionCatalog& attention) {
  std::vector<std::string> names;
  for (const AttentionChoice& level : config.levels) {
    const absl::Status status = attention.Validate(level);
    if (status.ok()) {
      names.push_back(level.level);
    } else {
      std::clog << "level=warning event=level_not_served name=" << level.level << " reason=\""
                << status.message() << "\"\n";
    }
  }
  return names;
}

absl::Status CheckGivenLevels(const ServerConfig& config,
                              const std::vector<std::string>& key_levels,
                              const AttentionCatalog& attention) {
  absl::Status status = CheckLevel(config, config.default_level, "--default-level", attention);
  for (const std::string& level : key_levels) {
    if (!status.ok()) return status;
    status = CheckLevel(config, level, "the level of an API key", attention);
  }
  return status;
}

}  // namespace thresher
