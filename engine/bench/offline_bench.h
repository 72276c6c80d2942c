// Speed of the engine on one machine without any front end: a prefill, and decodes of some streams
// at once, beside what the matrix products alone and the weights' bytes allow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"

namespace thresher {

struct OfflineBenchOptions {
  EngineOptions engine;  // the prefix cache is turned off
  int prefill_tokens = 512;
  std::vector<int> decode_streams = {1, 8};
  int decode_prompt_tokens = 64;
  int decode_tokens = 64;  // of each stream
  int repetitions = 5;     // after one that warms up
  // Greedy continuation that the check demands after the prompt, both as text; empty: only that all
  // repetitions agree.
  std::string check_prompt, check_continuation;
  absl::Status Validate() const;
};

struct OfflineBenchCase {
  std::string name;              // "prefill_512", "decode_8"
  double tokens_per_second = 0;  // of all streams; the median of the repetitions
  double slowest = 0, fastest = 0;
  double gemm_only = 0;   // tokens a second if a step were its matrix products; 0: not measured
  double byte_floor = 0;  // tokens a second if a step were reading its weights once; 0: likewise
};

struct OfflineBenchReport {
  std::string device;
  std::vector<OfflineBenchCase> cases;
  double load_seconds = 0;
  std::int64_t peak_resident_bytes = 0;  // of the engine, before the comparisons were set up
  double bandwidth = 0;                  // bytes a second, see ReadBandwidth
  // Empty, or how the runs disagreed: then the figures mean nothing.
  std::string disagreement;
};

// Takes the calling thread for the run. Comparisons are made on one rank only.
absl::StatusOr<OfflineBenchReport> RunOfflineBench(const OfflineBenchOptions& options);

// One JSON object a line: bench, case, device, commit, command, value, unit, floor, peer.
std::vector<std::string> OfflineBenchLines(const OfflineBenchReport& report,
                                           const std::string& commit, const std::string& command);

}  // namespace thresher
