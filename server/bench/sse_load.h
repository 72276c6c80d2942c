// A load of concurrent event streams against a server, from one thread: what `bench serve` and the
// stream benchmark measure with.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace thresher {

struct SseLoadOptions {
  std::string host = "127.0.0.1";
  int port = 0;
  std::string path = "/v1/completions";
  std::string api_key;
  int concurrency = 1;
  int requests = 1;
  // The JSON body of the i-th request; it must ask for a stream with include_usage.
  std::function<std::string(int)> body;
};

struct SseLoadReport {
  double wall_seconds = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;  // as the usage events say
  std::int64_t cached_tokens = 0;
  int failed = 0;                           // not 200, an error event, or cut off
  std::string first_error;                  // of the failed ones
  std::vector<double> first_token_seconds;  // one a finished stream
  std::vector<double> gap_seconds;          // between a stream's events with text
};

// Unavailable: cannot connect. Blocks until all streams have ended.
absl::StatusOr<SseLoadReport> RunSseLoad(const SseLoadOptions& options);

// A whole GET, for the model's name: the body of a 200, else an error.
absl::StatusOr<std::string> HttpGet(const std::string& host, int port, const std::string& path,
                                    const std::string& api_key);

// The value below which the share lies, 0 … 1; sorts the values. 0 if there is none.
double Percentile(std::vector<double>& values, double share);

}  // namespace thresher
