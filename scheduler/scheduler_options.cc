#include <string>

#include "absl/strings/str_cat.h"
#include "scheduler/scheduler.h"

namespace thresher {
namespace {

// Far above any use; they keep sums of a few of these inside an int.
constexpr int kMostTokens = 1 << 28;
constexpr int kMostRequests = 1 << 20;

absl::Status OutOfRange(const char* field, std::int64_t value, const std::string& allowed) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; it must be ", allowed));
}

}  // namespace

absl::Status SchedulerOptions::Validate() const {
  if (num_blocks < 1) return OutOfRange("num_blocks", num_blocks, "at least 1");
  if (block_size != 16 && block_size != 32 && block_size != 64 && block_size != 128) {
    return OutOfRange("block_size", block_size, "16, 32, 64 or 128");
  }
  if (max_sequence_length < 1 || max_sequence_length > kMostTokens) {
    return OutOfRange("max_sequence_length", max_sequence_length,
                      absl::StrCat("1 to ", kMostTokens));
  }
  if (max_running < 1 || max_running > kMostRequests) {
    return OutOfRange("max_running", max_running, absl::StrCat("1 to ", kMostRequests));
  }
  if (token_budget > kMostTokens) {
    return OutOfRange("token_budget", token_budget, absl::StrCat("at most ", kMostTokens));
  }
  if (token_budget < max_running + 128) {
    return OutOfRange("token_budget", token_budget,
                      absl::StrCat("at least max_running + 128 = ", max_running + 128,
                                   ", so that a prefill chunk always moves"));
  }
  if (max_prefill_chunk < 0) return OutOfRange("max_prefill_chunk", max_prefill_chunk, "0 or more");
  if (max_queued_requests < 1 || max_queued_requests > kMostRequests) {
    return OutOfRange("max_queued_requests", max_queued_requests,
                      absl::StrCat("1 to ", kMostRequests));
  }
  if (max_queued_prompt_tokens < 1) {
    return OutOfRange("max_queued_prompt_tokens", max_queued_prompt_tokens, "at least 1");
  }
  if (reserve_tokens < 1 || reserve_tokens > kMostTokens) {
    return OutOfRange("reserve_tokens", reserve_tokens, absl::StrCat("1 to ", kMostTokens));
  }
  if (max_lookahead < 0) return OutOfRange("max_lookahead", max_lookahead, "0 or more");
  if (max_head_skips < 0) return OutOfRange("max_head_skips", max_head_skips, "0 or more");
  return absl::OkStatus();
}

}  // namespace thresher
