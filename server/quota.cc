#include "server/quota.h"

#include "absl/strings/str_cat.h"

namespace thresher {

absl::Status Quota::Share::GrowTo(std::int64_t amount) {
  const std::int64_t more = amount - amount_;
  if (more <= 0) return absl::OkStatus();
  if (quota_->held_.fetch_add(more, std::memory_order_relaxed) + more > quota_->limit_) {
    quota_->held_.fetch_sub(more, std::memory_order_relaxed);
    return absl::ResourceExhaustedError(absl::StrCat(
        "the server has no room for more ", quota_->what_, ": its limit is ", quota_->limit_));
  }
  amount_ = amount;
  return absl::OkStatus();
}

void Quota::Share::Release() {
  const std::int64_t amount = std::exchange(amount_, 0);
  if (amount > 0) quota_->held_.fetch_sub(amount, std::memory_order_relaxed);
}

}  // namespace thresher
