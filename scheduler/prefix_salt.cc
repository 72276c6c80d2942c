#include "scheduler/prefix_salt.h"

#include "absl/strings/str_cat.h"

namespace thresher {

const SaltSpan& SpanOfBlock(std::span<const SaltSpan> spans, int block_index, int block_size) {
  const std::int64_t last_row = (std::int64_t{block_index} + 1) * block_size - 1;
  std::size_t span = spans.size() - 1;
  while (span > 0 && spans[span].first_token > last_row) --span;
  return spans[span];
}

absl::Status ValidateSaltSpans(std::span<const SaltSpan> spans) {
  if (spans.empty()) return absl::InvalidArgumentError("prefix_salts has no span");
  if (spans[0].first_token != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("prefix_salts[0].first_token is ", spans[0].first_token, "; it must be 0"));
  }
  for (std::size_t i = 1; i < spans.size(); ++i) {
    if (spans[i].first_token <= spans[i - 1].first_token) {
      return absl::InvalidArgumentError(absl::StrCat("prefix_salts[", i, "].first_token is ",
                                                     spans[i].first_token, "; it must be above ",
                                                     spans[i - 1].first_token));
    }
  }
  return absl::OkStatus();
}

}  // namespace thresher
