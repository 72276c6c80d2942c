// Whether the server serves: loading, ready, draining or failed; and the model once there is one.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/requests/served_model.h"

namespace thresher {

// Any thread. One writer, `main`, moves it forward: loading, ready, draining.
class ServingState final {
 public:
  explicit ServingState(absl::Duration stall) : stall_(stall) {}

  void SetModel(const ServedModel& model) { model_.store(&model, std::memory_order_release); }
  void SetDraining() { draining_.store(true, std::memory_order_release); }
  bool draining() const { return draining_.load(std::memory_order_acquire); }

  // The model, for a new request. Unavailable: loading, draining or failed.
  absl::StatusOr<const ServedModel*> Admit() const;
  // The model, for everything that an instance may answer while it drains. Unavailable: loading.
  absl::StatusOr<const ServedModel*> Model() const;

  // "ok", "loading", "draining", "failed": ready for new requests only at "ok".
  std::string Readiness() const;
  // Ok unless the engine has failed or its loop has made no progress for the stall time.
  absl::Status Liveness(absl::Time now) const;

 private:
  const absl::Duration stall_;
  std::atomic<const ServedModel*> model_ = nullptr;
  std::atomic<bool> draining_ = false;
};

}  // namespace thresher
