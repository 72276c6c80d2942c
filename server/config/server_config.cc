#include "server/config/server_config.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "server/config/attention_config.h"
#include "server/config/builtin_levels.h"
#include "server/requests/attention_mapping.h"

namespace thresher {
namespace {

absl::Status CheckRange(const char* flag, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, " is ", value, "; it must be from ", low, " to ", high));
}

absl::Status CheckRanges(const v1::ServeConfig& config) {
  constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();
  const struct {
    const char* flag;
    std::int64_t value, low, high;
  } ranges[] = {
      {"http-port", config.http_port(), 0, 65535},
      {"grpc-port", config.grpc_port(), 0, 65535},
      {"tensor-parallel", config.tensor_parallel(), 1, 64},
      {"threads", config.threads(), 0, 4096},
      {"max-model-len", config.max_model_len(), 0, kMaxInt},
      {"kv-cache-tokens", config.kv_cache_tokens(), 0, kMaxInt},
      {"max-body-bytes", config.max_body_bytes(), 1024, 1 << 30},
      // Less than one body could hold no request of that size at all.
      {"max-held-body-bytes", config.max_held_body_bytes(), config.max_body_bytes(),
       std::int64_t{1} << 50},
      {"max-grpc-calls", config.max_grpc_calls(), 1, 1000000},
      {"max-json-depth", config.max_json_depth(), 4, 512},
      {"max-connections", config.max_connections(), 1, 1000000},
      {"max-choices", config.max_choices(), 1, 4096},
      {"request-timeout-seconds", config.request_timeout_seconds(), 0, kMaxInt},
      {"heartbeat-seconds", config.heartbeat_seconds(), 1, 3600},
      {"drain-seconds", config.drain_seconds(), 0, 86400},
      {"stall-seconds", config.stall_seconds(), 1, 86400},
  };
  for (const auto& range : ranges) {
    if (absl::Status status = CheckRange(range.flag, range.value, range.low, range.high);
        !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status OneOf(const char* flag, const std::string& value, const char* allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, " is '", value, "'; it must be ", allowed));
}

constexpr std::int64_t kCpuCacheTokens = 16384;

absl::Status FillEngineOptions(const v1::ServeConfig& config, EngineOptions& engine) {
  if (config.model().empty()) return absl::InvalidArgumentError("--model is missing");
  engine.model_path = config.model();
  const absl::StatusOr<DeviceKind> device = DeviceFromFlag(config.device());
  if (!device.ok()) return device.status();
  engine.device = *device;
  if (config.kv_cache_dtype() == "bf16") {
    engine.kv_cache_dtype = DType::kBF16;
  } else if (config.kv_cache_dtype() == "fp32") {
    engine.kv_cache_dtype = DType::kF32;
  } else {
    return OneOf("kv-cache-dtype", config.kv_cache_dtype(), "bf16 or fp32");
  }
  if (config.admission() == "no_evict") {
    engine.scheduler.admission = Admission::kNoEvict;
  } else if (config.admission() == "eager") {
    engine.scheduler.admission = Admission::kEager;
  } else {
    return OneOf("admission", config.admission(), "no_evict or eager");
  }
  if (config.cpu_isa() == "avx2") {
    engine.backend.max_isa = CpuIsa::kAvx2;
  } else if (config.cpu_isa() == "avx512") {
    engine.backend.max_isa = CpuIsa::kAvx512;
  } else if (config.cpu_isa() != "auto" && config.cpu_isa() != "avx512_bf16") {
    return OneOf("cpu-isa", config.cpu_isa(), "auto, avx2, avx512 or avx512_bf16");
  }
  engine.threshold_table = config.threshold_table();
  if (absl::Status status = FillAttentionSettings(config, engine.attention); !status.ok()) {
    return status;
  }
  engine.tensor_parallel = config.tensor_parallel();
  engine.backend.num_threads = config.threads();
  engine.backend.batch_invariant = config.batch_invariant();
  engine.backend.gemm_choices_path = config.gemm_choices();
  engine.max_model_len = config.max_model_len();
  engine.kv_memory_fraction = config.kv_memory_fraction();
  engine.kv_cache_tokens = config.kv_cache_tokens();
  // A CPU's memory belongs to others too.
  if (engine.kv_cache_tokens == 0 && engine.device == DeviceKind::kCpu) {
    engine.kv_cache_tokens = kCpuCacheTokens;
  }
  engine.scheduler.block_size = config.block_size();
  engine.scheduler.max_running = config.max_running();
  engine.scheduler.token_budget = config.token_budget();
  engine.scheduler.max_queued_requests = config.max_queued_requests();
  engine.scheduler.max_queued_prompt_tokens = config.max_queued_prompt_tokens();
  engine.scheduler.reserve_tokens = config.reserve_tokens();
  engine.scheduler.prefix_cache = config.prefix_cache();
  return engine.Validate();
}

absl::Status FillLevels(const v1::ServeConfig& config, ServerConfig& result) {
  result.levels = BuiltInLevels();
  std::vector<std::string> seen;
  for (const v1::AttentionLevel& level : config.level()) {
    absl::StatusOr<AttentionChoice> choice = LevelFromProto(level);
    if (!choice.ok()) return choice.status();
    if (std::ranges::find(seen, choice->level) != seen.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("level '", level.name(), "' is configured twice"));
    }
    if (choice->level == result.levels[0].level) {
      return absl::InvalidArgumentError(
          absl::StrCat("level '", level.name(), "' is dense and cannot be another"));
    }
    seen.push_back(choice->level);
    const auto known = std::ranges::find(result.levels, choice->level, &AttentionChoice::level);
    if (known != result.levels.end()) {
      *known = *std::move(choice);
    } else {
      result.levels.push_back(*std::move(choice));
    }
  }
  result.default_level = config.default_level();
  if (FindLevel(result.levels, result.default_level) == nullptr) {
    return OneOf("default-level", config.default_level(), LevelNames(result.levels).c_str());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DeviceKind> DeviceFromFlag(const std::string& value) {
  if (value == "cpu") return DeviceKind::kCpu;
  if (value == "cuda") return DeviceKind::kCuda;
  return OneOf("device", value, "cpu or cuda");
}

absl::StatusOr<ServerConfig> ServerConfigFrom(const v1::ServeConfig& config) {
  ServerConfig result;
  if (absl::Status status = CheckRanges(config); !status.ok()) return status;
  if (absl::Status status = FillEngineOptions(config, result.engine); !status.ok()) return status;
  if (absl::Status status = FillLevels(config, result); !status.ok()) return status;
  if (config.host().empty()) return absl::InvalidArgumentError("--host is empty");
  result.served_model_name = config.served_model_name();
  result.host = config.host();
  result.http_port = config.http_port();
  result.grpc_port = config.grpc_port();
  result.limits.max_choices = config.max_choices();
  result.limits.max_json_depth = config.max_json_depth();
  result.limits.max_body_bytes = config.max_body_bytes();
  if (config.request_timeout_seconds() > 0) {
    result.limits.request_timeout = absl::Seconds(config.request_timeout_seconds());
  }
  result.api_keys_path = config.api_keys();
  result.max_connections = config.max_connections();
  result.max_grpc_calls = config.max_grpc_calls();
  result.max_held_body_bytes = config.max_held_body_bytes();
  result.heartbeat = absl::Seconds(config.heartbeat_seconds());
  result.drain = absl::Seconds(config.drain_seconds());
  result.stall = absl::Seconds(config.stall_seconds());
  result.vllm_metric_names = config.vllm_metric_names();
  result.cors_allow_origin = config.cors_allow_origin();
  return result;
}

}  // namespace thresher
