#include "engine/runner/step_graphs.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"

namespace thresher {

int PaddedRows(int num_rows, int max_rows) {
  int step = 1;
  while (num_rows > 8 * step) step *= 2;
  return std::min(max_rows, (num_rows + step - 1) / step * step);
}

absl::Status StepGraphs::Run(const StepShape& shape, Stream& stream,
                             absl::FunctionRef<absl::Status()> queue) {
  const auto found = std::ranges::find(entries_, shape, &Entry::shape);
  if (found == entries_.end()) {
    if (entries_.size() == kMaxGraphs) {
      *std::ranges::min_element(entries_, {}, &Entry::last_use) = std::move(entries_.back());
      entries_.pop_back();
    }
    entries_.push_back({.shape = shape, .work = nullptr, .last_use = ++num_uses_});
    return queue();
  }
  found->last_use = ++num_uses_;
  if (found->work == nullptr) {
    absl::StatusOr<std::unique_ptr<CapturedWork>> work = device_.Capture(stream, queue);
    if (!work.ok()) return work.status();
    found->work = *std::move(work);
  }
  return found->work->Launch(stream);
}

}  // namespace thresher
