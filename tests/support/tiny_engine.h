// The real engine on the real CPU runner with a tiny random model, and how two of its runs compare.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine_parts.h"
#include "engine/runner/parallel_runner.h"

namespace thresher::testing {

struct TinyEngineOptions {
  std::string model;  // below golden/models
  int num_ranks = 1;
  int num_blocks = 256;
  int max_prefill_chunk = 0;
  int max_model_len = 0;  // 0: the model's own
  DType kv_cache_dtype = DType::kF32;
  bool full_precision = true;
  bool prefix_cache = false;
  bool batch_invariant = false;
  AttentionSettings attention = {};
  const ThresholdContents* thresholds = nullptr;  // null: no table
  int max_position = 0;  // of the model, by rewriting its config.json; 0: its own
};

inline constexpr int kTinyBlockSize = 16;

// A test failure and null if the engine cannot be made.
std::unique_ptr<Engine> CreateTinyEngine(const TinyEngineOptions& options,
                                         EngineObserver* observer = nullptr);

// What one choice gave.
struct Generated {
  std::vector<TokenId> tokens;
  std::vector<TokenLogprobs> logprobs;  // for each token, if asked for
  RequestUsage usage;
  absl::Status status;
};
Generated Collect(RequestHandle& handle);
Generated Generate(Engine& engine, const GenerationRequest& request);

// A greedy request with the top two log-probabilities of each token; the prompt is a function of
// its length and `variant`, with tokens 3 … vocab_size − 1.
GenerationRequest TinyRequest(int vocab_size, int prompt_length, int max_tokens, int variant);

// Fails the test unless the runs agree: log-probabilities within `tolerance`, and the same tokens
// up to the first that was nearly tied with its runner-up, where the runs part for good.
void ExpectSameRun(const Generated& expected, const Generated& actual, float tolerance,
                   const std::string& what);

// Fails the test unless the runs have the same tokens and, bit by bit, the same log-probabilities.
void ExpectSameBits(const Generated& expected, const Generated& actual, const std::string& what);

}  // namespace thresher::testing
