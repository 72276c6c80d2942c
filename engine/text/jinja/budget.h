// What one render may use. A template comes from a model's file and its messages from a client, so
// both can be hostile: every loop and every text that is built is charged before the work is done.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "engine/text/jinja/error.h"

namespace thresher::jinja {

struct Limits {
  std::int64_t max_steps = 5'000'000;          // expressions, statements and items walked
  std::int64_t max_text_bytes = 32 << 20;      // of one text, and of the output
  std::int64_t max_total_bytes = 512LL << 20;  // built in all, kept or not
  int max_depth = 1000;                        // expressions, statements and macros in each other
};

class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  absl::Status Step(std::int64_t count = 1) {
    if (count <= limits_.max_steps - steps_) {
      steps_ += count;
      return absl::OkStatus();
    }
    return Failure("over the limit of ", limits_.max_steps, " steps");
  }

  // Before a text of that size is built, or read from end to end.
  absl::Status Text(std::int64_t bytes) {
    if (bytes > limits_.max_text_bytes) {
      return Failure("a text over the limit of ", limits_.max_text_bytes, " bytes");
    }
    total_bytes_ += bytes;
    if (total_bytes_ > limits_.max_total_bytes) {
      return Failure("over the limit of ", limits_.max_total_bytes, " bytes of text in all");
    }
    return absl::OkStatus();
  }

  absl::Status Enter() {
    if (++depth_ <= limits_.max_depth) return absl::OkStatus();
    return Failure("over the limit of ", limits_.max_depth,
                   " statements, expressions and macros inside each other");
  }
  void Leave() { --depth_; }

  const Limits& limits() const { return limits_; }

 private:
  const Limits limits_;
  std::int64_t steps_ = 0;
  std::int64_t total_bytes_ = 0;
  int depth_ = 0;
};

}  // namespace thresher::jinja
