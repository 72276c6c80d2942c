// The engine's reports as Prometheus metrics, in the text form that /metrics serves.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/attention/attention_choice.h"
#include "engine/engine_observer.h"

namespace thresher {

struct MetricsOptions {
  std::string model_name;                    // label of the aliases
  bool vllm_names = false;                   // also expose what exists under vLLM's names
  std::vector<AttentionChoice> levels = {};  // configured ones
};

// Any thread. Every series exists from the start, so a rate never misses its first step.
class MetricsRegistry final : public EngineObserver {
 public:
  explicit MetricsRegistry(const MetricsOptions& options);
  ~MetricsRegistry() override;

  void OnStep(const StepReport& report) override;
  void OnInterToken(absl::Duration since_last) override;
  void OnRequestEnd(const RequestReport& report) override;
  // A request that was refused before it reached the engine.
  void CountRefused();

  // The Prometheus text format, version 0.0.4. Never waits for the engine.
  std::string Text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace thresher
