#include "server/requests/serving_state.h"

#include "absl/strings/str_cat.h"

namespace thresher {

absl::StatusOr<const ServedModel*> ServingState::Model() const {
  const ServedModel* model = model_.load(std::memory_order_acquire);
  if (model == nullptr) return absl::UnavailableError("the model is still loading");
  return model;
}

absl::StatusOr<const ServedModel*> ServingState::Admit() const {
  if (draining()) return absl::UnavailableError("the server is draining");
  absl::StatusOr<const ServedModel*> model = Model();
  if (model.ok() && (*model)->engine.health() == EngineHealth::kFailed) {
    return absl::UnavailableError("the engine has failed");
  }
  return model;
}

std::string ServingState::Readiness() const {
  if (draining()) return "draining";
  const ServedModel* model = model_.load(std::memory_order_acquire);
  if (model == nullptr) return "loading";
  switch (model->engine.health()) {
    case EngineHealth::kServing:
      return "ok";
    case EngineHealth::kLoading:
      return "loading";
    case EngineHealth::kDraining:
      return "draining";
    case EngineHealth::kFailed:
      return "failed";
  }
  return "failed";
}

absl::Status ServingState::Liveness(absl::Time now) const {
  const ServedModel* model = model_.load(std::memory_order_acquire);
  if (model == nullptr) return absl::OkStatus();
  if (model->engine.health() == EngineHealth::kFailed) {
    return absl::UnavailableError("the engine has failed");
  }
  const absl::Duration silence = now - model->engine.last_progress();
  if (silence > stall_) {
    return absl::UnavailableError(
        absl::StrCat("the engine has made no progress for ", absl::FormatDuration(silence)));
  }
  return absl::OkStatus();
}

}  // namespace thresher
