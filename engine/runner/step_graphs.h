// Steps as captured work of the device: decode steps of one shape are queued by one call instead of
// one for each of their kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/device/device.h"

namespace thresher {

// Rows of the step that a decode step of num_rows is filled up to, at most max_rows: all counts up
// to 8, then four for each doubling, so that few shapes serve all batches.
int PaddedRows(int num_rows, int max_rows);

// What makes two steps' launches the same.
struct StepShape {
  int num_rows = 0;
  std::uint64_t attention_key = 0;  // AttentionPlan::launch_key
  friend bool operator==(const StepShape&, const StepShape&) = default;
};

// Used by the rank's worker thread only.
class StepGraphs final {
 public:
  // `device` captures work and outlives the object.
  explicit StepGraphs(Device& device) : device_(device) {}

  // Does what `queue` does, which gives the step's work to the stream: runs it the first time that
  // the shape is seen, so that whatever is made lazily is there; captures it the second time; and
  // replays it from then on. Of many shapes the one used longest ago is forgotten.
  absl::Status Run(const StepShape& shape, Stream& stream, absl::FunctionRef<absl::Status()> queue);

  static constexpr std::size_t kMaxGraphs = 128;

 private:
  struct Entry {
    StepShape shape;
    std::unique_ptr<CapturedWork> work;  // null: seen once
    std::int64_t last_use = 0;
  };

  Device& device_;
  std::vector<Entry> entries_;
  std::int64_t num_uses_ = 0;
};

}  // namespace thresher
