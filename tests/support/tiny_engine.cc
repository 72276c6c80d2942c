#include "tests/support/tiny_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "tests/support/fakes/fake_engine.h"
#include "tests/support/fakes/fake_tokenizer.h"
#include "tests/support/logits_golden.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_environment.h"

namespace thresher::testing {

namespace {

// A copy of the model's folder with another context limit. The files stay mapped when the folder
// goes.
std::string WithMaxPosition(const std::string& model, int max_position, const TempFolder& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(model)) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::stringstream bytes;
    bytes << file.rdbuf();
    std::string text = bytes.str();
    if (entry.path().filename() == "config.json") {
      constexpr char kField[] = "\"max_position_embeddings\": ";
      const std::size_t field = text.find(kField);
      EXPECT_NE(field, std::string::npos) << entry.path();
      const std::size_t number = field + sizeof(kField) - 1;
      text.replace(number, text.find(',', number) - number, std::to_string(max_position));
    }
    folder.Write(entry.path().filename().string(), text);
  }
  return folder.path();
}

}  // namespace

std::unique_ptr<Engine> CreateTinyEngine(const TinyEngineOptions& options,
                                         EngineObserver* observer) {
  const TempFolder folder;
  std::string path = GoldenPath("models/" + options.model);
  if (options.max_position > 0) path = WithMaxPosition(path, options.max_position, folder);
  absl::StatusOr<std::unique_ptr<ModelFiles>> files = ModelFiles::Open(path);
  EXPECT_TRUE(files.ok()) << files.status();
  if (!files.ok()) return nullptr;
  EngineParts parts;
  parts.model_config = (*files)->config();
  parts.tokenizer = std::make_unique<FakeTokenizer>(parts.model_config.vocab_size);
  parts.max_model_len = options.max_model_len > 0 ? options.max_model_len
                                                  : std::min(parts.model_config.max_position,
                                                             options.num_blocks * kTinyBlockSize);
  parts.batch_invariant = options.batch_invariant;
  // The tests read one stream after the other, however long the first takes.
  parts.stalled_reader_timeout = absl::InfiniteDuration();
  parts.scheduler.num_blocks = options.num_blocks;
  parts.scheduler.block_size = kTinyBlockSize;
  parts.scheduler.max_running = 40;
  parts.scheduler.token_budget = 256;
  parts.scheduler.max_prefill_chunk = options.max_prefill_chunk;
  parts.scheduler.reserve_tokens = 1;
  parts.scheduler.prefix_cache = options.prefix_cache;
  std::unique_ptr<ThresholdTable> table;
  if (options.thresholds != nullptr) {
    auto created = ThresholdTable::Create(*options.thresholds, options.num_ranks);
    EXPECT_TRUE(created.ok()) << created.status();
    if (!created.ok()) return nullptr;
    table = *std::move(created);
  }
  auto attention = AttentionCatalog::Create(options.attention, std::move(table));
  EXPECT_TRUE(attention.ok()) << attention.status();
  if (!attention.ok()) return nullptr;
  parts.attention = *std::move(attention);
  absl::StatusOr<std::unique_ptr<ModelRunner>> runner =
      CreateParallelRunner(**files,
                           {.device = DeviceKind::kCpu,
                            .backend = {.num_threads = options.num_ranks,
                                        .max_isa = TestMaxIsa(),
                                        .full_precision = options.full_precision,
                                        .batch_invariant = options.batch_invariant},
                            .tensor_parallel = options.num_ranks,
                            .rank = {.num_blocks = options.num_blocks,
                                     .block_size = kTinyBlockSize,
                                     .kv_cache_dtype = options.kv_cache_dtype,
                                     .max_tokens = parts.scheduler.token_budget,
                                     .max_sequences = parts.scheduler.max_running,
                                     .max_position = parts.max_model_len,
                                     .attention = parts.attention.get()}},
                           LoadProgress());
  EXPECT_TRUE(runner.ok()) << runner.status();
  if (!runner.ok()) return nullptr;
  parts.runner = *std::move(runner);
  parts.model_files = *std::move(files);
  absl::StatusOr<std::unique_ptr<Engine>> engine = CreateEngine(std::move(parts), observer);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? *std::move(engine) : nullptr;
}

Generated Collect(RequestHandle& handle) {
  Generated generated;
  for (const TokenEvent& event : ReadAll(handle)) {
    if (event.token.has_value()) generated.tokens.push_back(*event.token);
    if (event.logprobs.has_value()) generated.logprobs.push_back(*event.logprobs);
    if (event.finish.has_value()) generated.status = event.status;
  }
  generated.usage = handle.usage();
  return generated;
}

Generated Generate(Engine& engine, const GenerationRequest& request) {
  return Collect(*MustSubmit(engine, request));
}

GenerationRequest TinyRequest(int vocab_size, int prompt_length, int max_tokens, int variant) {
  GenerationRequest request;
  // A multiplicative walk: no two variants share a prefix of a block.
  std::uint32_t state = 12345u + 777u * static_cast<std::uint32_t>(variant);
  for (int i = 0; i < prompt_length; ++i) {
    state = state * 1664525u + 1013904223u;
    request.prompt.push_back(3 + static_cast<TokenId>((state >> 8) % (vocab_size - 3)));
  }
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.sampling.logprobs = 2;
  return request;
}

void ExpectSameRun(const Generated& expected, const Generated& actual, float tolerance,
                   const std::string& what) {
  ASSERT_TRUE(expected.status.ok()) << what << ": " << expected.status;
  ASSERT_TRUE(actual.status.ok()) << what << ": " << actual.status;
  ASSERT_FALSE(expected.tokens.empty()) << what;
  ASSERT_EQ(expected.tokens.size(), expected.logprobs.size()) << what;
  for (std::size_t i = 0; i < expected.tokens.size(); ++i) {
    ASSERT_LT(i, actual.tokens.size()) << what << ": the run is shorter";
    ASSERT_LE(std::abs(expected.logprobs[i].top[0].second - actual.logprobs[i].top[0].second),
              tolerance)
        << what << ": token " << i;
    if (expected.tokens[i] == actual.tokens[i]) continue;
    const float gap = expected.logprobs[i].top[0].second - expected.logprobs[i].top[1].second;
    ASSERT_LE(gap, 2 * tolerance) << what << ": token " << i << " is " << actual.tokens[i]
                                  << ", expected " << expected.tokens[i];
    return;
  }
  EXPECT_EQ(expected.tokens.size(), actual.tokens.size()) << what;
}

void ExpectSameBits(const Generated& expected, const Generated& actual, const std::string& what) {
  ASSERT_TRUE(expected.status.ok()) << what << ": " << expected.status;
  ASSERT_TRUE(actual.status.ok()) << what << ": " << actual.status;
  ASSERT_FALSE(expected.tokens.empty()) << what;
  ASSERT_EQ(expected.tokens.size(), expected.logprobs.size()) << what;
  EXPECT_EQ(expected.tokens, actual.tokens) << what;
  ASSERT_EQ(expected.logprobs.size(), actual.logprobs.size()) << what;
  for (std::size_t i = 0; i < expected.logprobs.size(); ++i) {
    ASSERT_EQ(expected.logprobs[i].logprob, actual.logprobs[i].logprob) << what << ": token " << i;
    ASSERT_EQ(expected.logprobs[i].top, actual.logprobs[i].top) << what << ": token " << i;
  }
}

}  // namespace thresher::testing
