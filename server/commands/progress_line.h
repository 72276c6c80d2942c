// How far a long command has come, on stderr.
#pragma once

#include <string>

#include "absl/time/time.h"

namespace thresher {

// "label [#####     ] 52 %, 1m 20s left". On a terminal one line that is drawn again, else a plain
// line every ten seconds. One thread.
class ProgressLine final {
 public:
  // `enabled` false: prints nothing.
  ProgressLine(std::string label, bool enabled);
  // Ends the line.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // fraction in [0, 1] of all work is done, of which `before` was done before this process began.
  // `detail` stands behind the time left.
  void Show(double fraction, double before, const std::string& detail);

 private:
  const std::string label_;
  const bool enabled_;
  const bool terminal_;
  const absl::Time start_;
  absl::Time next_ = absl::InfinitePast();
  bool drawn_ = false;
};

// "45s", "3m 05s", "2h 10m".
std::string ShortDuration(absl::Duration duration);

}  // namespace thresher
