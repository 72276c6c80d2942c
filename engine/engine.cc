// From options to a running engine: opens the model, sizes the cache, loads the ranks.
#include "engine/engine.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/engine_parts.h"
#include "engine/flag_error.h"
#include "engine/model/synthetic_model_files.h"
#include "engine/runner/parallel_runner.h"

namespace thresher {
namespace {

// The text of a token, as a chat template's variable.
std::string TextOf(const Tokenizer& tokenizer, std::optional<TokenId> id) {
  return id.has_value() ? std::string(tokenizer.TokenBytes(*id)) : std::string();
}

absl::StatusOr<int> ChooseMaxModelLen(const EngineOptions& options, const ModelConfig& config,
                                      std::int64_t cache_tokens) {
  const int limit = static_cast<int>(std::min<std::int64_t>(config.max_position, cache_tokens));
  if (options.max_model_len <= limit) {
    return options.max_model_len == 0 ? limit : options.max_model_len;
  }
  if (options.max_model_len > config.max_position) {
    return FlagError("--max-model-len", options.max_model_len,
                     absl::StrCat("at most ", config.max_position, ", the model's own"));
  }
  return FlagError("--max-model-len", options.max_model_len,
                   absl::StrCat("at most ", cache_tokens, ", what the KV cache holds"));
}

// Where the cache takes what memory is left, its size is the operator's news.
void ReportCache(const EngineOptions& options, int num_blocks) {
  std::fprintf(stderr,
               "level=info event=kv_cache_sized blocks=%d block_size=%d tokens=%lld "
               "memory_fraction=%g\n",
               num_blocks, options.scheduler.block_size,
               static_cast<long long>(num_blocks) * options.scheduler.block_size,
               options.kv_memory_fraction);
}

absl::StatusOr<std::unique_ptr<AttentionCatalog>> OpenCatalog(const EngineOptions& options,
                                                              const ModelFiles& files) {
  if (options.threshold_table.empty()) {
    return AttentionCatalog::Create(options.attention, nullptr, options.device);
  }
  absl::StatusOr<ModelFingerprint> fingerprint =
      FingerprintOf(files, files.config(), options.kv_cache_dtype);
  if (!fingerprint.ok()) return fingerprint.status();
  absl::StatusOr<std::unique_ptr<ThresholdTable>> table =
      ThresholdTable::Load(options.threshold_table, *fingerprint, options.tensor_parallel);
  if (!table.ok()) return table.status();
  return AttentionCatalog::Create(options.attention, *std::move(table), options.device);
}

// Said at start, since requests see it only in their counts of dense rows.
void WarnOfDenseRows(const AttentionCatalog& catalog, int max_model_len) {
  if (max_model_len <= catalog.longest_thresholded_row()) return;
  std::fprintf(stderr,
               "level=warning event=threshold_table_short calibrated_length=%d "
               "longest_sparse_row=%d max_model_len=%d advice=\"longer rows are dense under "
               "top_theta: calibrate on longer texts\"\n",
               catalog.table()->max_length(), catalog.longest_thresholded_row(), max_model_len);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options,
                                                       EngineObserver* observer,
                                                       const LoadProgress& progress) {
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<ModelFiles>> files = ModelFiles::Open(options.model_path);
  if (!files.ok()) return files.status();
  if (IsSyntheticModel(options.model_path)) {
    std::fprintf(stderr, "level=warning event=random_weights model=%s\n",
                 options.model_path.c_str());
  }

  EngineParts parts;
  parts.model_config = (*files)->config();
  if (absl::Status status = options.attention.ValidateLayers(parts.model_config.num_layers);
      !status.ok()) {
    return status;
  }
  parts.generation_defaults = (*files)->generation_defaults();
  if (const std::optional<int> window = parts.model_config.sliding_window;
      window.has_value() && *window == parts.model_config.max_position) {
    std::fprintf(stderr, "level=warning event=context_capped by=sliding_window max_position=%d\n",
                 *window);
  }
  parts.stream_capacity = options.stream_capacity;
  parts.stalled_reader_timeout = options.stalled_reader_timeout;
  parts.seed = std::random_device()();
  parts.batch_invariant = options.backend.batch_invariant;
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = (*files)->LoadTokenizer();
  if (!tokenizer.ok()) return tokenizer.status();
  parts.tokenizer = *std::move(tokenizer);
  if (const std::optional<std::string> source = (*files)->chat_template(); source.has_value()) {
    const Tokenizer& known = *parts.tokenizer;
    absl::StatusOr<std::unique_ptr<ChatTemplate>> chat_template =
        ChatTemplate::Parse(*source, TextOf(known, known.bos()), TextOf(known, known.eos()));
    if (!chat_template.ok()) return chat_template.status();
    parts.chat_template = *std::move(chat_template);
  }

  parts.scheduler = options.scheduler;
  const int block_size = options.scheduler.block_size;
  // 0 blocks: the runner finds out, once it is there, how many fit. Until then nothing but the
  // model bounds the context.
  int num_blocks = static_cast<int>((options.kv_cache_tokens + block_size - 1) / block_size);
  const auto cache_tokens = [&] { return std::int64_t{num_blocks} * block_size; };
  absl::StatusOr<int> max_model_len =
      ChooseMaxModelLen(options, parts.model_config,
                        num_blocks == 0 ? parts.model_config.max_position : cache_tokens());
  if (!max_model_len.ok()) return max_model_len.status();
  parts.max_model_len = *max_model_len;

  absl::StatusOr<std::unique_ptr<AttentionCatalog>> attention = OpenCatalog(options, **files);
  if (!attention.ok()) return attention.status();
  parts.attention = *std::move(attention);
  WarnOfDenseRows(*parts.attention, parts.max_model_len);
  absl::StatusOr<std::unique_ptr<ModelRunner>> runner =
      CreateParallelRunner(**files,
                           {.device = options.device,
                            .backend = options.backend,
                            .tensor_parallel = options.tensor_parallel,
                            .rank = {.num_blocks = num_blocks,
                                     .memory_fraction = options.kv_memory_fraction,
                                     .block_size = block_size,
                                     .kv_cache_dtype = options.kv_cache_dtype,
                                     .max_tokens = parts.scheduler.token_budget,
                                     .max_sequences = parts.scheduler.max_running,
                                     .max_position = parts.max_model_len,
                                     .attention = parts.attention.get()}},
                           progress, &num_blocks);
  if (!runner.ok()) return runner.status();
  if (options.kv_cache_tokens == 0) {
    ReportCache(options, num_blocks);
    max_model_len = ChooseMaxModelLen(options, parts.model_config, cache_tokens());
    if (!max_model_len.ok()) return max_model_len.status();
    parts.max_model_len = *max_model_len;
  }
  parts.scheduler.num_blocks = num_blocks;
  parts.runner = *std::move(runner);
  parts.model_files = *std::move(files);
  return CreateEngine(std::move(parts), observer);
}

}  // namespace thresher
