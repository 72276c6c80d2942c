// What both front ends share. Everything here outlives them.
#pragma once

#include "engine/engine_observer.h"
#include "server/config/server_config.h"
#include "server/metrics/metrics_registry.h"
#include "server/quota.h"
#include "server/requests/api_keys.h"
#include "server/requests/serving_state.h"
#include "server/task_queue.h"

namespace thresher {

struct ServerContext {
  const ServerConfig& config;
  ServingState& state;
  MetricsRegistry& metrics;
  ApiKeys& keys;
  TaskQueue& workers;  // tokenising and templates
  Quota& body_bytes;   // of HTTP bodies and gRPC messages that wait to be read
};

}  // namespace thresher
