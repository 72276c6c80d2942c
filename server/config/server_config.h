// The server's configuration, checked once at start and turned into what its parts take.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/attention/attention_choice.h"
#include "engine/engine.h"
#include "thresher/v1/config.pb.h"

namespace thresher {

// What a client's request may ask for, and what it gets when it asks for nothing.
struct ClientLimits {
  int max_choices = 128;
  int max_json_depth = 64;
  std::int64_t max_body_bytes = 8 << 20;
  absl::Duration request_timeout = absl::InfiniteDuration();
};

struct ServerConfig {
  EngineOptions engine;
  std::string served_model_name;  // empty: the model's file name
  std::string host;
  int http_port = 0;
  int grpc_port = 0;
  ClientLimits limits;
  std::vector<AttentionChoice> levels;  // "off" first
  std::string default_level;
  std::string api_keys_path;  // empty: no keys
  int max_connections = 0;
  int max_grpc_calls = 0;
  std::int64_t max_held_body_bytes = 0;
  absl::Duration heartbeat;
  absl::Duration drain;
  absl::Duration stall;
  bool vllm_metric_names = false;
  std::string cors_allow_origin;
};

// What every command's --device says. InvalidArgument for anything but cpu and cuda.
absl::StatusOr<DeviceKind> DeviceFromFlag(const std::string& value);

// InvalidArgument naming the flag, its value and the limit; Unimplemented naming a flag that this
// build cannot honour.
absl::StatusOr<ServerConfig> ServerConfigFrom(const v1::ServeConfig& config);

}  // namespace thresher
