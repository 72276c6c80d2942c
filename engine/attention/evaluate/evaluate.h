// Compares attention choices with dense attention over given text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/attention/attention_choice.h"
#include "engine/attention/attention_settings.h"
#include "engine/attention/calibrate/calibration_windows.h"
#include "engine/attention/evaluate/evaluation_report.h"
#include "engine/runner/kv_cache_pool.h"
#include "kernels/backend.h"

namespace thresher {

struct EvaluatedChoice {
  std::string name;
  AttentionChoice choice;
  AttentionSettings settings;
};

struct EvaluateOptions {
  std::string model_path;
  std::string threshold_table;  // empty: none
  double context_factor = 1;    // above 1: YaRN, see StretchContext
  std::vector<TextFile> texts;
  std::vector<EvaluatedChoice> choices;
  // Each text gives num_windows stretches of window_tokens, apart, spread evenly over it. The first
  // prompt_tokens of each run under the prefill policy, the rest under the decode policy. A model's
  // beginning token is the first of each.
  int prompt_tokens = 512;
  int window_tokens = 0;  // 0: the model's context
  int num_windows = 1;
  int first_position = 1024;  // positions below it are left out of the means
  // Every so many steps also compute dense attention on the same inputs; 0: none, and no output
  // error.
  int shadow_interval = 8;
  // Tasks of each kind, see synthetic_tasks.h, of about task_tokens each, run by the serving
  // engine.
  int num_tasks = 0;
  int task_tokens = 4096;
  std::uint64_t seed = 1;
  BackendOptions backend;
  DType kv_cache_dtype = DType::kBF16;
  std::string command;  // written into the report

  // InvalidArgument naming the field and the limit; before any work.
  absl::Status Validate() const;
};

// Called now and then: tokens done of all, dense and every choice counted.
using EvaluationProgress = std::function<void(std::int64_t done, std::int64_t total)>;

// InvalidArgument if a text is too short for a window, or a choice is not served by this model and
// table, naming it; errors of loading.
absl::StatusOr<EvaluationReport> Evaluate(const EvaluateOptions& options,
                                          const EvaluationProgress& progress);

// The index in the report of the choice that reads least (V rows in decode times blocks in prefill)
// among those whose upper limit of the perplexity increase is at most max_loss; −1 if none.
int CheapestWithin(const EvaluationReport& report, double max_loss);

}  // namespace thresher
