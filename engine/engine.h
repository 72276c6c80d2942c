// The engine: a model served by continuous batching on one or more ranks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/attention/attention_catalog.h"
#include "engine/engine_observer.h"
#include "engine/model/causal_lm.h"
#include "engine/model/model_files.h"
#include "engine/request.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"
#include "scheduler/scheduler.h"

namespace thresher {

struct EngineOptions {
  std::string model_path;
  DeviceKind device = DeviceKind::kCpu;
  int tensor_parallel = 1;
  BackendOptions backend;  // num_threads: of all ranks together
  int max_model_len = 0;   // 0: the model's own, capped by the cache
  // Rounded up to whole blocks; 0: as many as fit in memory.
  std::int64_t kv_cache_tokens = 16384;
  // With kv_cache_tokens 0: the share of each device's memory that weights, workspaces and the KV
  // cache may take together.
  double kv_memory_fraction = 0.9;
  DType kv_cache_dtype = DType::kBF16;
  AttentionSettings attention;
  std::string threshold_table;  // path; empty: none
  SchedulerOptions scheduler;   // num_blocks and max_sequence_length are filled in
  // Events that one choice may leave unread. A reader that leaves more is cancelled at once, one
  // that leaves any for the timeout is cancelled then.
  int stream_capacity = 1 << 16;
  absl::Duration stalled_reader_timeout = absl::Seconds(30);
  // InvalidArgument naming the flag and the limit.
  absl::Status Validate() const;
};

struct EngineLoad {
  int running = 0, waiting = 0;
  double kv_usage = 0;           // share of blocks owned by requests
  double tokens_per_second = 0;  // generated, over the last ten seconds
};

enum class EngineHealth { kLoading, kServing, kDraining, kFailed };

class ModelRunner;

// Any thread may call any method. Owns the engine thread and a thread per rank.
class Engine {
 public:
  // Loads the model and starts. The observer outlives the engine; null for none. Progress is called
  // by rank 0's loading thread.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineOptions& options,
                                                        EngineObserver* observer,
                                                        const LoadProgress& progress);
  virtual ~Engine() = default;

  // InvalidArgument (a FieldError, see request_error.h), ResourceExhausted (queue full),
  // Unavailable (draining or failed). `listener` may be null; it outlives the handle.
  virtual absl::StatusOr<std::unique_ptr<RequestHandle>> Submit(GenerationRequest request,
                                                                StreamListener* listener,
                                                                std::uint64_t tag) = 0;
  // Submits all or none, and the scheduler meets them in the same step. `tag` is that of each.
  virtual absl::StatusOr<std::vector<std::unique_ptr<RequestHandle>>> SubmitTogether(
      std::vector<GenerationRequest> requests, StreamListener* listener, std::uint64_t tag) = 0;
  // Cancels the open request of that id; NotFound.
  virtual absl::Status Abort(const std::string& request_id) = 0;

  virtual const Tokenizer& tokenizer() const = 0;
  virtual const ChatTemplate* chat_template() const = 0;  // null: the model has none
  virtual const ModelConfig& model_config() const = 0;
  virtual const GenerationDefaults& generation_defaults() const = 0;
  virtual const AttentionCatalog& attention() const = 0;
  virtual int max_model_len() const = 0;
  virtual EngineLoad load() const = 0;
  virtual EngineHealth health() const = 0;
  // The last time the engine loop made progress or had nothing to do.
  virtual absl::Time last_progress() const = 0;
  // Refuses new requests, waits until the open ones have ended or the deadline has come, then
  // cancels the rest with Unavailable.
  virtual void Drain(absl::Time deadline) = 0;
};

}  // namespace thresher
