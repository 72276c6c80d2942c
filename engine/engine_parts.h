// An engine put together from parts that exist already: how Engine::Create ends, and how tests and
// benchmarks run the real engine over a fake runner.
#pragma once

#include <functional>
#include <memory>

#include "engine/engine.h"
#include "engine/runner/model_runner.h"

namespace thresher {

struct EngineParts {
  std::unique_ptr<ModelFiles> model_files;  // kept as long as the runner, which may read from it
  std::unique_ptr<const AttentionCatalog> attention;  // before the runner; null: dense alone
  std::unique_ptr<ModelRunner> runner;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat_template;  // may be null
  ModelConfig model_config;
  GenerationDefaults generation_defaults;
  int max_model_len = 0;       // tokens of prompt and output together
  SchedulerOptions scheduler;  // num_blocks set; max_sequence_length is filled in
  int stream_capacity = EngineOptions().stream_capacity;
  absl::Duration stalled_reader_timeout = absl::Seconds(30);
  std::uint64_t seed = 0;  // of the seeds drawn for requests that bring none
  std::function<absl::Time()> clock = absl::Now;
  bool batch_invariant = false;  // as the runner's backend
};

// InvalidArgument if the scheduler's options or the length disagree. The observer outlives the
// engine; null for none.
absl::StatusOr<std::unique_ptr<Engine>> CreateEngine(EngineParts parts, EngineObserver* observer);

}  // namespace thresher
