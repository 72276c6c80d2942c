// Time of single steps of the model runner: decodes of a batch at a context, and first tokens of
// prompts, beside what the device's memory and multipliers allow.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"

namespace thresher {

struct DecodeCase {
  int batch = 0;
  int context = 0;  // tokens that a row attends to in the middle of a run
};

struct StepBenchOptions {
  // Read: model_path, device, backend, kv_cache_dtype, scheduler.block_size and .token_budget. The
  // cache is as large as the cases need.
  EngineOptions engine;
  std::vector<DecodeCase> decode;
  std::vector<int> prefill;  // prompt lengths
  int steps = 32;            // of a decode run
  int repetitions = 3;       // after one that warms up
  double bandwidth = 0;      // bytes a second, for the floors; 0: measured
  double flops = 0;          // operations a second, for the floors of prompts; 0: none
  // InvalidArgument naming the flag and the limit.
  absl::Status Validate() const;
};

struct StepBenchCase {
  std::string name;                 // "decode_8x1024", "first_token_8192"
  double milliseconds = 0;          // of a step, or up to the first token; the median
  double fastest = 0, slowest = 0;  // medians of single repetitions
  double floor = 0;                 // milliseconds, 0: not known
  double tokens_per_second = 0;
  double cpu_milliseconds = 0;  // of all threads, for a step or a prompt
};

struct StepBenchReport {
  std::string device;
  std::vector<StepBenchCase> cases;
  double load_seconds = 0, fill_seconds = 0;
  double bandwidth = 0;           // bytes a second
  std::int64_t weight_bytes = 0;  // that a step reads
  int num_blocks = 0;
  // Empty, or how a repetition gave other tokens than the first run, or a row of logits was not
  // finite: then the figures mean nothing.
  std::string disagreement;
};

// Called after each case, with the report as far as it is: a run that is cut short has said
// something.
using StepBenchProgress = std::function<void(const StepBenchReport& report)>;

// Takes the calling thread for the run. Errors of the options, the model and the runner.
absl::StatusOr<StepBenchReport> RunStepBench(const StepBenchOptions& options,
                                             const StepBenchProgress& progress);

// JSON objects: bench, case, device, commit, command, value, unit, floor, peer.
// Of one of the report's cases.
std::string StepBenchCaseLine(const StepBenchReport& report, const StepBenchCase& measured,
                              const std::string& commit, const std::string& command);
// Of the run as a whole: loading, filling, bandwidth, agreement.
std::vector<std::string> StepBenchRunLines(const StepBenchReport& report, const std::string& commit,
                                           const std::string& command);

}  // namespace thresher
