#include "server/config/defaults.h"

namespace thresher {

v1::ServeConfig DefaultServeConfig() {
  v1::ServeConfig config;
  config.set_host("127.0.0.1");
  config.set_http_port(8000);
  config.set_grpc_port(9000);
  config.set_device("cpu");
  config.set_tensor_parallel(1);
  config.set_kv_memory_fraction(0.9);
  config.set_kv_cache_dtype("bf16");
  config.set_default_level("off");
  config.set_block_size(64);
  config.set_max_running(256);
  config.set_token_budget(512);
  config.set_max_queued_requests(1024);
  config.set_max_queued_prompt_tokens(1 << 20);
  config.set_reserve_tokens(512);
  config.set_admission("no_evict");
  config.set_prefix_cache(true);
  // A context of 128k tokens is about half a megabyte of text and one of ids.
  config.set_max_body_bytes(8 << 20);
  // Waiting bodies, one of the largest for each of 32 clients.
  config.set_max_held_body_bytes(256 << 20);
  config.set_max_json_depth(64);
  config.set_max_connections(4096);
  config.set_max_grpc_calls(4096);
  config.set_max_choices(128);
  config.set_request_timeout_seconds(600);
  // Below the 60 s after which common proxies cut a silent connection, with room for two losses.
  config.set_heartbeat_seconds(15);
  config.set_drain_seconds(30);
  config.set_stall_seconds(60);
  config.set_cpu_isa("auto");
  return config;
}

v1::GenerateConfig DefaultGenerateConfig() {
  v1::GenerateConfig config;
  config.set_max_tokens(128);
  config.set_attention("off");
  config.set_kv_cache_tokens(16384);
  config.set_device("cpu");
  return config;
}

v1::EvaluateConfig DefaultEvaluateConfig() {
  v1::EvaluateConfig config;
  config.set_prompt_tokens(512);
  config.set_windows(1);
  config.set_first_position(1024);
  config.set_task_tokens(4096);
  config.set_context_factor(1);
  config.set_shadow_interval(8);
  config.set_max_loss(0.01);
  config.set_seed(1);
  config.set_device("cpu");
  return config;
}

v1::CalibrateConfig DefaultCalibrateConfig() {
  v1::CalibrateConfig config;
  config.set_windows(24);
  config.set_rows_per_length(64);
  config.set_seed(1);
  config.set_kv_cache_dtype("bf16");
  config.set_import_placement("pre");
  config.set_context_factor(1);
  config.set_device("cpu");
  return config;
}

v1::BenchServeConfig DefaultBenchServeConfig() {
  v1::BenchServeConfig config;
  config.set_host("127.0.0.1");
  config.set_port(8000);
  config.set_concurrency(8);
  config.set_requests(32);
  config.set_prompt_tokens(128);
  config.set_output_tokens(64);
  config.set_seed(1);
  return config;
}

v1::BenchOfflineConfig DefaultBenchOfflineConfig() {
  v1::BenchOfflineConfig config;
  config.set_tensor_parallel(1);
  config.set_prefill_tokens(512);
  config.set_streams(8);
  config.set_decode_tokens(64);
  config.set_repetitions(5);
  config.set_cpu_isa("auto");
  config.set_device("cpu");
  config.set_prompt_tokens(1000);
  config.set_output_tokens(1000);
  config.set_concurrency(64);
  config.set_token_budget(512);
  config.set_kv_memory_fraction(0.9);
  return config;
}

v1::BenchStepConfig DefaultBenchStepConfig() {
  v1::BenchStepConfig config;
  config.set_device("cpu");
  config.set_steps(32);
  config.set_repetitions(3);
  config.set_token_budget(512);
  config.set_block_size(64);
  config.set_kv_cache_dtype("bf16");
  config.set_cpu_isa("auto");
  return config;
}

v1::BenchSchedulerConfig DefaultBenchSchedulerConfig() {
  v1::BenchSchedulerConfig config;
  config.set_running(256);
  config.set_steps(20000);
  config.set_blocks(100000);
  config.set_prefix_cache(true);
  return config;
}

}  // namespace thresher
