#include "engine/attention/evaluate/evaluate.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/attention/evaluate/block_list_judge.h"
#include "engine/attention/evaluate/choice_tally.h"
#include "engine/attention/evaluate/evaluation_windows.h"
#include "engine/attention/evaluate/task_run.h"
#include "engine/attention/evaluate/teacher_forcing.h"
#include "engine/attention/model_fingerprint.h"
#include "engine/attention/policy_kind.h"
#include "engine/attention/threshold_table.h"
#include "engine/model/scaled_model_files.h"

namespace thresher {
namespace {

constexpr int kChunk = 128;  // aligned with the blocks of block policies
constexpr int kRowsAtEnd = 512;

absl::Status Below(const char* field, std::int64_t value, std::int64_t minimum) {
  if (value >= minimum) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, "; it must be at least ", minimum));
}

// One choice while it runs.
struct Contestant {
  Contestant(const EvaluatedChoice& evaluated, int first_position)
      : spec(evaluated), tally(first_position) {}
  const EvaluatedChoice& spec;
  std::unique_ptr<AttentionCatalog> catalog;
  std::unique_ptr<PagedAttention> attention;
  SequencePolicies policies;
  ChoiceTally tally;
  BlockListJudge judge;
  StepAttentionReport report;
};

// The k of each layer under a policy that has one, as the policy resolves it; else empty.
std::vector<int> TargetsOf(const ResolvedPolicy& policy, const AttentionSettings& settings,
                           int num_layers) {
  const std::vector<PolicyParameter>& parameters =
      PolicyKinds()[static_cast<std::size_t>(policy.kind)]->description().parameters;
  const auto found = std::find_if(parameters.begin(), parameters.end(),
                                  [](const PolicyParameter& p) { return p.name == "k"; });
  if (found == parameters.end()) return {};
  const double k = policy.parameters[static_cast<std::size_t>(found - parameters.begin())];
  std::vector<int> targets(static_cast<std::size_t>(num_layers), static_cast<int>(k));
  for (const LayerTarget& layer : settings.top_theta.layers) {
    if (layer.layer >= num_layers) continue;
    int& target = targets[static_cast<std::size_t>(layer.layer)];
    target = std::max(target, layer.k);
  }
  return targets;
}

// Splits the rows over threads: a row of 49,152 logits takes a third of a millisecond.
template <typename Row>
void ForRows(int num_rows, int num_threads, const Row& row) {
  std::vector<std::thread> threads;
  const auto run = [&](int first) {
    for (int i = first; i < num_rows; i += num_threads) row(i);
  };
  for (int thread = 1; thread < std::min(num_threads, num_rows); ++thread) {
    threads.emplace_back(run, thread);
  }
  run(0);
  for (std::thread& thread : threads) thread.join();
}

class Evaluation final {
 public:
  Evaluation(const EvaluateOptions& options, const EvaluationProgress& progress)
      : options_(options),
        progress_(progress),
        num_threads_(options.backend.num_threads > 0
                         ? options.backend.num_threads
                         : std::max(1, static_cast<int>(std::thread::hardware_concurrency()))) {}

  absl::Status Prepare() {
    absl::StatusOr<std::unique_ptr<ModelFiles>> files = ModelFiles::Open(options_.model_path);
    if (files.ok()) files = StretchContext(*std::move(files), options_.context_factor);
    if (!files.ok()) return files.status();
    files_ = *std::move(files);
    const int context = files_->config().max_position;
    window_ = options_.window_tokens == 0 ? context : options_.window_tokens;
    if (window_ > context) {
      return absl::InvalidArgumentError(
          absl::StrCat("window_tokens is ", window_, "; the model's context is ", context));
    }
    if (options_.first_position >= window_) {
      return absl::InvalidArgumentError(absl::StrCat("first_position is ", options_.first_position,
                                                     "; it must be below the window's ", window_,
                                                     " tokens"));
    }
    if (absl::Status status = CutWindows(); !status.ok()) return status;
    contestants_.reserve(options_.choices.size());
    for (const EvaluatedChoice& choice : options_.choices) {
      if (absl::Status status = AddContestant(choice); !status.ok()) return status;
    }
    absl::StatusOr<std::unique_ptr<TeacherForcing>> run =
        TeacherForcing::Create(*files_, {.backend = options_.backend,
                                         .kv_cache_dtype = options_.kv_cache_dtype,
                                         .num_sequences = 1 + static_cast<int>(contestants_.size()),
                                         .max_length = window_,
                                         .chunk_tokens = kChunk});
    if (!run.ok()) return run.status();
    run_ = *std::move(run);
    absl::StatusOr<std::unique_ptr<AttentionCatalog>> dense = AttentionCatalog::Create({}, nullptr);
    if (!dense.ok()) return dense.status();
    dense_catalog_ = *std::move(dense);
    absl::StatusOr<std::unique_ptr<PagedAttention>> attention =
        run_->MakeAttention(*dense_catalog_);
    if (!attention.ok()) return attention.status();
    dense_attention_ = *std::move(attention);
    for (Contestant& contestant : contestants_) {
      attention = run_->MakeAttention(*contestant.catalog);
      if (!attention.ok()) return attention.status();
      contestant.attention = *std::move(attention);
    }
    return absl::OkStatus();
  }

  absl::Status Run() {
    total_ = static_cast<std::int64_t>(windows_.size()) * window_ *
             static_cast<std::int64_t>(1 + contestants_.size());
    for (const std::vector<TokenId>& window : windows_) {
      for (Contestant& contestant : contestants_) contestant.tally.BeginWindow();
      const int prompt = std::min(options_.prompt_tokens, window_);
      for (int first = 0, end = 0; first < window_; first = end) {
        end = std::min(first / kChunk * kChunk + kChunk, first < prompt ? prompt : window_);
        if (absl::Status status = RunChunk(window, first, end); !status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  EvaluationReport Read() const {
    EvaluationReport report;
    report.model = options_.model_path.substr(options_.model_path.find_last_of('/') + 1);
    for (const TextFile& text : options_.texts) report.texts.push_back(text.name);
    report.prompt_tokens = options_.prompt_tokens;
    report.window_tokens = window_;
    report.num_windows = static_cast<int>(windows_.size());
    report.first_position = options_.first_position;
    report.command = options_.command;
    for (const Contestant& contestant : contestants_) {
      ChoiceReading reading = contestant.tally.Read(options_.seed);
      reading.name = contestant.spec.name;
      reading.choice = contestant.spec.choice;
      reading.lists = contestant.judge.Read();
      report.choices.push_back(std::move(reading));
      report.dense_perplexity = contestant.tally.dense_perplexity();
      report.num_tokens = contestant.tally.num_tokens();
    }
    return report;
  }

 private:
  absl::Status CutWindows() {
    const absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = files_->LoadTokenizer();
    if (!tokenizer.ok()) return tokenizer.status();
    absl::StatusOr<std::vector<std::vector<TokenId>>> windows =
        CutEvaluationWindows(**tokenizer, options_.texts, window_, options_.num_windows);
    if (!windows.ok()) return windows.status();
    windows_ = *std::move(windows);
    return absl::OkStatus();
  }

  absl::Status AddContestant(const EvaluatedChoice& choice) {
    Contestant& contestant = contestants_.emplace_back(choice, options_.first_position);
    std::unique_ptr<const ThresholdTable> table;
    if (!options_.threshold_table.empty()) {
      const absl::StatusOr<ModelFingerprint> fingerprint =
          FingerprintOf(*files_, files_->config(), options_.kv_cache_dtype);
      if (!fingerprint.ok()) return fingerprint.status();
      absl::StatusOr<std::unique_ptr<ThresholdTable>> loaded =
          ThresholdTable::Load(options_.threshold_table, *fingerprint);
      if (!loaded.ok()) return loaded.status();
      table = *std::move(loaded);
    }
    AttentionSettings settings = choice.settings;
    settings.shadow_interval = options_.shadow_interval;
    settings.allows_evaluation_policies = true;
    absl::StatusOr<std::unique_ptr<AttentionCatalog>> catalog =
        AttentionCatalog::Create(settings, std::move(table));
    absl::Status status = catalog.status();
    if (status.ok()) status = settings.ValidateLayers(files_->config().num_layers);
    if (status.ok()) {
      contestant.catalog = *std::move(catalog);
      status = contestant.catalog->Validate(choice.choice);
    }
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat(choice.name, ": ", std::string(status.message())));
    }
    contestant.policies = {.prompt_length = std::min(options_.prompt_tokens, window_),
                           .prefill = contestant.catalog->Resolve(choice.choice.prefill),
                           .decode = contestant.catalog->Resolve(choice.choice.decode)};
    return absl::OkStatus();
  }

  // Positions [first, end) of the window, dense and under every choice.
  absl::Status RunChunk(std::span<const TokenId> window, int first, int end) {
    const std::span<const TokenId> tokens =
        window.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first));
    const int first_row = std::max(0, options_.first_position - first);
    const SequencePolicies dense{.prompt_length = window_,
                                 .prefill = dense_catalog_->Resolve({}),
                                 .decode = dense_catalog_->Resolve({})};
    absl::Status status =
        run_->Forward(0, first, tokens, dense, *dense_attention_, ShadowPass::kNone);
    if (!status.ok()) return status;
    dense_rows_.resize(tokens.size());
    status = ForLogits(first_row, end - first, [&](int row, std::span<const float> logits) {
      dense_rows_[static_cast<std::size_t>(row)].Set(logits);
    });
    if (!status.ok()) return status;
    Report(end - first);
    const bool compares =
        options_.shadow_interval > 0 && num_chunks_++ % options_.shadow_interval == 0;
    for (std::size_t i = 0; i < contestants_.size(); ++i) {
      Contestant& contestant = contestants_[i];
      const ModelConfig& config = run_->config();
      survivors_.assign(static_cast<std::size_t>(config.num_layers) * tokens.size() *
                            static_cast<std::size_t>(config.num_heads),
                        -1);
      contestant.attention->ObserveSurvivors(survivors_.data());
      contestant.attention->ObserveLists(compares ? &contestant.judge : nullptr);
      status =
          run_->Forward(1 + static_cast<int>(i), first, tokens, contestant.policies,
                        *contestant.attention, compares ? ShadowPass::kCompare : ShadowPass::kNone);
      if (!status.ok()) return status;
      contestant.attention->Collect(contestant.report);
      contestant.tally.Add(end, end > window_ - kRowsAtEnd, contestant.report);
      const bool decodes = first >= contestant.policies.prompt_length;
      contestant.tally.AddSurvivors(
          survivors_,
          TargetsOf(decodes ? contestant.policies.decode : contestant.policies.prefill,
                    contestant.spec.settings, config.num_layers),
          first, end - first);
      comparisons_.resize(tokens.size());
      status = ForLogits(first_row, end - first, [&](int row, std::span<const float> logits) {
        comparisons_[static_cast<std::size_t>(row)] =
            dense_rows_[static_cast<std::size_t>(row)].Compare(
                logits, window[static_cast<std::size_t>(first + row) + 1]);
      });
      if (!status.ok()) return status;
      for (int row = first_row; row < end - first; ++row) {
        contestant.tally.Add(first + row, comparisons_[static_cast<std::size_t>(row)]);
      }
      Report(end - first);
    }
    return absl::OkStatus();
  }

  template <typename Row>
  absl::Status ForLogits(int first_row, int end_row, const Row& row) {
    const auto vocab_size = static_cast<std::size_t>(run_->config().vocab_size);
    for (int first = first_row; first < end_row; first += TeacherForcing::kLogitRows) {
      const int count = std::min(TeacherForcing::kLogitRows, end_row - first);
      const absl::StatusOr<std::span<const float>> logits = run_->Logits(first, count);
      if (!logits.ok()) return logits.status();
      ForRows(count, num_threads_, [&](int i) {
        row(first + i, logits->subspan(static_cast<std::size_t>(i) * vocab_size, vocab_size));
      });
    }
    return absl::OkStatus();
  }

  void Report(int num_tokens) {
    done_ += num_tokens;
    if (progress_) progress_(done_, total_);
  }

  const EvaluateOptions& options_;
  const EvaluationProgress& progress_;
  const int num_threads_;
  std::unique_ptr<ModelFiles> files_;
  int window_ = 0;
  std::vector<std::vector<TokenId>> windows_;  // each of window_ + 1 tokens
  std::unique_ptr<AttentionCatalog> dense_catalog_;
  std::unique_ptr<TeacherForcing> run_;
  std::unique_ptr<PagedAttention> dense_attention_;
  std::vector<Contestant> contestants_;
  std::vector<DenseDistribution> dense_rows_;
  std::vector<LogitComparison> comparisons_;
  std::vector<std::int32_t> survivors_;  // [num_layers, rows, num_heads] of a step
  std::int64_t num_chunks_ = 0, done_ = 0, total_ = 0;
};

}  // namespace

absl::Status EvaluateOptions::Validate() const {
  if (texts.empty()) return absl::InvalidArgumentError("texts is empty; give at least one");
  if (choices.empty()) return absl::InvalidArgumentError("choices is empty; give at least one");
  absl::Status status = Below("prompt_tokens", prompt_tokens, 1);
  if (status.ok()) status = Below("window_tokens", window_tokens, 0);
  if (status.ok()) status = Below("num_windows", num_windows, 1);
  if (status.ok()) status = Below("first_position", first_position, 0);
  if (status.ok()) status = Below("shadow_interval", shadow_interval, 0);
  if (status.ok()) status = Below("num_tasks", num_tasks, 0);
  if (status.ok()) status = Below("task_tokens", task_tokens, 64);
  if (status.ok() && num_tasks > 0 && context_factor != 1) {
    status = absl::InvalidArgumentError(
        "num_tasks is above 0 with a context_factor; tasks run on the model as it is");
  }
  return status;
}

absl::StatusOr<EvaluationReport> Evaluate(const EvaluateOptions& options,
                                          const EvaluationProgress& progress) {
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  EvaluationReport report;
  {
    Evaluation evaluation(options, progress);
    absl::Status status = evaluation.Prepare();
    if (status.ok()) status = evaluation.Run();
    if (!status.ok()) return status;
    report = evaluation.Read();
  }  // its caches go before the tasks' engine comes
  if (options.num_tasks > 0) {
    if (absl::Status status = RunTasks(options, report); !status.ok()) return status;
  }
  return report;
}

int CheapestWithin(const EvaluationReport& report, double max_loss) {
  int best = -1;
  double least = 0;
  for (std::size_t i = 0; i < report.choices.size(); ++i) {
    const ChoiceReading& reading = report.choices[i];
    const double cost = reading.value_row_share * reading.block_density;
    if (reading.perplexity_increase.upper <= max_loss && (best < 0 || cost < least)) {
      best = static_cast<int>(i);
      least = cost;
    }
  }
  return best;
}

}  // namespace thresher
