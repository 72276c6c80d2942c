// An amount that many requests share: bytes of bodies, open calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace thresher {

// Any thread. Outlives every share that holds something.
class Quota final {
 public:
  // `what` is what the amount counts, for messages: "bytes of request bodies".
  Quota(std::string what, std::int64_t limit) : what_(std::move(what)), limit_(limit) {}

  // What one request holds; given back when it is destroyed. One thread at a time.
  class Share final {
   public:
    explicit Share(Quota& quota) : quota_(&quota) {}
    Share(Share&& other) noexcept
        : quota_(other.quota_), amount_(std::exchange(other.amount_, 0)) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(quota_, other.quota_);
      std::swap(amount_, other.amount_);
      return *this;
    }
    ~Share() { Release(); }

    // Holds `amount` from now on, if that is more than before. ResourceExhausted naming the limit:
    // all requests together would hold too much; the share is as it was.
    absl::Status GrowTo(std::int64_t amount);
    void Release();

   private:
    Quota* quota_;
    std::int64_t amount_ = 0;
  };

  std::int64_t held() const { return held_.load(std::memory_order_relaxed); }

 private:
  const std::string what_;
  const std::int64_t limit_;
  std::atomic<std::int64_t> held_ = 0;
};

}  // namespace thresher
