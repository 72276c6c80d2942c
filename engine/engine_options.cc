#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/engine.h"
#include "engine/flag_error.h"

namespace thresher {

absl::Status EngineOptions::Validate() const {
  if (model_path.empty()) return absl::InvalidArgumentError("--model is empty");
  if (tensor_parallel < 1 || tensor_parallel > 64) {
    return FlagError("--tensor-parallel", tensor_parallel, "from 1 to 64");
  }
  if (backend.num_threads < 0 || backend.num_threads > 4096) {
    return FlagError("--threads", backend.num_threads, "from 1 to 4096, or 0 for all cores");
  }
  if (max_model_len < 0) {
    return FlagError("--max-model-len", max_model_len, "at least 1, or 0 for the model's own");
  }
  const std::int64_t most_tokens =
      static_cast<std::int64_t>(std::numeric_limits<std::int32_t>::max() / 2);
  const bool fills_memory = kv_cache_tokens == 0;
  if (!fills_memory && (kv_cache_tokens < scheduler.block_size || kv_cache_tokens > most_tokens)) {
    return FlagError("--kv-cache-tokens", kv_cache_tokens,
                     absl::StrCat("from one block of ", scheduler.block_size, " to ", most_tokens,
                                  ", or 0 for as many as fit"));
  }
  // Written so that NaN fails.
  if (!(kv_memory_fraction > 0 && kv_memory_fraction <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("--kv-memory-fraction is ", kv_memory_fraction,
                                                   "; it must be above 0 and at most 1"));
  }
  if (kv_cache_dtype != DType::kBF16 && kv_cache_dtype != DType::kF32) {
    return absl::InvalidArgumentError("--kv-cache-dtype must be bf16 or fp32");
  }
  if (stream_capacity < 1) return FlagError("stream_capacity", stream_capacity, "at least 1");
  if (stalled_reader_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("stalled_reader_timeout must be above zero");
  }
  if (absl::Status status = attention.Validate(); !status.ok()) return status;
  if (backend.batch_invariant && attention.block_lists.cache_match == CacheMatch::kLoose) {
    return absl::InvalidArgumentError(
        "block_lists.cache_match is LOOSE, an approximation; --batch-invariant forbids it");
  }
  SchedulerOptions filled = scheduler;
  filled.num_blocks = filled.max_sequence_length = 1;
  return filled.Validate();
}

}  // namespace thresher
