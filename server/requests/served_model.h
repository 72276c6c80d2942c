// Everything about the loaded model that mapping a request or writing an answer needs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/config/server_config.h"
#include "server/requests/prompt_encoder.h"

namespace thresher {

// Immutable after construction; any thread. The engine outlives it.
struct ServedModel {
  ServedModel(Engine& served_engine, const ServerConfig& config, std::int64_t created_seconds);

  Engine& engine;
  std::string name;
  std::int64_t created;  // unix seconds
  PromptEncoder encoder;
  ClientLimits limits;
  std::vector<AttentionChoice> levels;
  std::string default_level;
};

// The name that clients use: the configured one, or the model's file or folder.
std::string ModelName(const ServerConfig& config);

// A second name of whatever is served, for examples and scripts.
inline constexpr char kDefaultModelName[] = "default";

// NotFound with code model_not_found unless `name` is the served one or the default name.
absl::Status CheckModelName(const ServedModel& model, const std::string& name);

}  // namespace thresher
