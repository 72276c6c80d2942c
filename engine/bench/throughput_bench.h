// Many requests through the engine in one process: output tokens a second at a given concurrency,
// what a server can at most give.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "engine/engine.h"

namespace thresher {

struct ThroughputBenchOptions {
  // The prefix cache is turned off, the context is that of a request, and as many run as are open.
  EngineOptions engine;
  int requests = 256;
  int prompt_tokens = 1000;  // of each, drawn from the whole vocabulary
  int output_tokens = 1000;  // of each, greedy, through end tokens
  int concurrency = 64;      // requests open at once
  // InvalidArgument naming the flag and the limit.
  absl::Status Validate() const;
};

struct ThroughputBenchReport {
  std::string device;
  double load_seconds = 0;
  double seconds = 0;  // from the first submission to the last token
  double output_tokens_per_second = 0;
  double tokens_per_second = 0;                           // of prompts and outputs
  double cpu_seconds = 0;                                 // of all threads of the process meanwhile
  double first_token_ms_p50 = 0, first_token_ms_p99 = 0;  // from a request's submission
  double gap_ms_p50 = 0, gap_ms_p99 = 0;                  // between tokens of a request
  // Empty, or how a request alone drew other tokens after the load than before it.
  std::string disagreement;
};

// Takes the calling thread for the run. The first error of a request, if one fails.
absl::StatusOr<ThroughputBenchReport> RunThroughputBench(const ThroughputBenchOptions& options);

// A JSON object: bench, case, device, commit, command, value, unit, floor, peer.
std::string ThroughputBenchLine(const ThroughputBenchOptions& options,
                                const ThroughputBenchReport& report, const std::string& commit,
                                const std::string& command);

}  // namespace thresher
