// What the loaded model serves of attention, for the pages that describe it and for the start.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/attention/attention_catalog.h"
#include "server/config/server_config.h"
#include "server/requests/serving_state.h"

namespace thresher {

// Every policy that a request may name, with the ranges that the model serves; while it loads, with
// the widest.
std::vector<PolicyDescription> ServedPolicies(const ServingState& state);
// Null: none, or the model still loads. Lives as long as the model.
const ThresholdTable* LoadedTable(const ServingState& state);

// The names of the configured levels that the model can serve. Logs a warning for each other.
std::vector<std::string> ServedLevels(const ServerConfig& config,
                                      const AttentionCatalog& attention);

// Whether the default level and those of API keys can be served; they would otherwise fail requests
// that asked for nothing. FailedPrecondition naming the level and what to do.
absl::Status CheckGivenLevels(const ServerConfig& config,
                              const std::vector<std::string>& key_levels,
                              const AttentionCatalog& attention);

}  // namespace thresher
