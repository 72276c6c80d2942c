#include "engine/attention/evaluate/task_run.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/attention/evaluate/synthetic_tasks.h"
#include "engine/engine.h"

namespace thresher {
namespace {

constexpr int kAnswerTokens = 32;
constexpr int kBytesPerToken = 3;  // of prose and lists, on the safe side of a tokenizer's four

absl::StatusOr<std::string> Answer(Engine& engine, const Task& task,
                                   const AttentionChoice& choice) {
  GenerationRequest request;
  absl::Status status = engine.tokenizer().Encode(task.prompt, {}, request.prompt);
  if (!status.ok()) return status;
  request.max_tokens = kAnswerTokens;
  request.sampling.temperature = 0;
  request.attention = choice;
  absl::StatusOr<std::unique_ptr<RequestHandle>> handle =
      engine.Submit(std::move(request), nullptr, 0);
  if (!handle.ok()) return handle.status();
  std::vector<TokenEvent> events;
  std::vector<TokenId> tokens;
  for (bool more = true; more;) {
    (*handle)->Wait(absl::Seconds(60));
    events.clear();
    more = (*handle)->Poll(events);
    for (const TokenEvent& event : events) {
      if (!event.status.ok()) return event.status;
      if (event.token.has_value()) tokens.push_back(*event.token);
    }
  }
  return Decode(engine.tokenizer(), tokens, /*skip_special_tokens=*/true);
}

absl::StatusOr<std::unique_ptr<Engine>> StartEngine(const EvaluateOptions& options,
                                                    const AttentionSettings& settings) {
  EngineOptions engine;
  engine.model_path = options.model_path;
  engine.threshold_table = options.threshold_table;
  engine.attention = settings;
  engine.attention.allows_evaluation_policies = true;
  engine.backend = options.backend;
  engine.kv_cache_dtype = options.kv_cache_dtype;
  engine.scheduler.prefix_cache = false;  // each answer is computed under its own choice
  return Engine::Create(engine, nullptr, {});
}

absl::StatusOr<std::vector<std::pair<std::string, double>>> ScoreTasks(
    const EvaluateOptions& options, const AttentionSettings& settings,
    const AttentionChoice& choice) {
  const absl::StatusOr<std::unique_ptr<Engine>> engine = StartEngine(options, settings);
  if (!engine.ok()) return engine.status();
  std::vector<std::pair<std::string, double>> scores;
  for (const TaskKind kind : kAllTaskKinds) {
    double sum = 0;
    for (int i = 0; i < options.num_tasks; ++i) {
      const TextFile& text = options.texts[static_cast<std::size_t>(i) % options.texts.size()];
      const Task task = MakeTask(kind, options.seed + static_cast<std::uint64_t>(i), text.text,
                                 static_cast<std::size_t>(options.task_tokens) * kBytesPerToken);
      const absl::StatusOr<std::string> answer = Answer(**engine, task, choice);
      if (!answer.ok()) {
        return absl::Status(
            answer.status().code(),
            absl::StrCat(std::string(Name(kind)), ": ", std::string(answer.status().message())));
      }
      sum += ScoreAnswer(task, *answer);
    }
    scores.emplace_back(Name(kind), sum / options.num_tasks);
  }
  return scores;
}

}  // namespace

absl::Status RunTasks(const EvaluateOptions& options, EvaluationReport& report) {
  const auto dense = ScoreTasks(options, {}, {});
  if (!dense.ok()) return dense.status();
  report.dense_tasks = *dense;
  for (std::size_t i = 0; i < options.choices.size(); ++i) {
    const auto scores = ScoreTasks(options, options.choices[i].settings, options.choices[i].choice);
    if (!scores.ok()) return scores.status();
    report.choices[i].tasks = *scores;
  }
  return absl::OkStatus();
}

}  // namespace thresher
