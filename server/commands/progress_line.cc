#include "server/commands/progress_line.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace thresher {
namespace {

constexpr int kBarWidth = 30;

}  // namespace

ProgressLine::ProgressLine(std::string label, bool enabled)
    : label_(std::move(label)),
      enabled_(enabled),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(absl::Now()) {}

ProgressLine::~ProgressLine() {
  if (terminal_ && drawn_) std::cerr << std::endl;
}

void ProgressLine::Show(double fraction, double before, const std::string& detail) {
  const absl::Time now = absl::Now();
  if (!enabled_ || (now < next_ && fraction < 1)) return;
  next_ = now + (terminal_ ? absl::Milliseconds(200) : absl::Seconds(10));
  std::string left;
  if (fraction > before && fraction < 1) {
    const absl::Duration rest = (now - start_) * ((1 - fraction) / (fraction - before));
    left = absl::StrCat(", ", ShortDuration(rest), " left");
  }
  const std::string text =
      absl::StrFormat("%3.0f %%%s%s%s", 100 * fraction, left, detail.empty() ? "" : ", ", detail);
  if (!terminal_) {
    std::cerr << label_ << " " << text << std::endl;
    return;
  }
  const int filled = std::clamp(static_cast<int>(kBarWidth * fraction), 0, kBarWidth);
  // Clears to the end: the line before may have been longer.
  std::cerr << "\r" << label_ << " [" << std::string(static_cast<std::size_t>(filled), '#')
            << std::string(static_cast<std::size_t>(kBarWidth - filled), ' ') << "] " << text
            << "\033[K" << std::flush;
  drawn_ = true;
}

std::string ShortDuration(absl::Duration duration) {
  const auto seconds = absl::ToInt64Seconds(absl::Ceil(duration, absl::Seconds(1)));
  if (seconds < 60) return absl::StrCat(seconds, "s");
  if (seconds < 3600) return absl::StrFormat("%dm %02ds", seconds / 60, seconds % 60);
  return absl::StrFormat("%dh %02dm", seconds / 3600, seconds / 60 % 60);
}

}  // namespace thresher
