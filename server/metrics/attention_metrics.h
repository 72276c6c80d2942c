// What sparse attention saved and what it cost, as Prometheus metrics.
#pragma once

#include <memory>
#include <vector>

#include "engine/attention/attention_choice.h"
#include "engine/engine_observer.h"

namespace prometheus {
class Registry;
}

namespace thresher {

// The engine thread's, but for construction. The series of the configured levels exist from the
// start; those of "custom" come with the first request.
class AttentionMetrics final {
 public:
  // The registry outlives the object.
  AttentionMetrics(const std::vector<AttentionChoice>& levels, prometheus::Registry& registry);
  ~AttentionMetrics();

  void OnStep(const StepReport& report);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace thresher
