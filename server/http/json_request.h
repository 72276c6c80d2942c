// The bodies of /v1/completions and /v1/chat/completions to CompletionRequest. Every field of the
// OpenAI pages is read, or refused with an error that names it; unknown top-level fields are
// ignored; the `attention` block is strict.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "server/requests/completion_request.h"

namespace thresher {

struct HttpCompletionRequest {
  CompletionRequest request;
  bool stream = false;
  bool include_usage = false;     // stream_options
  bool continuous_usage = false;  // stream_options.continuous_usage_stats
};

// InvalidArgument naming the field.
absl::StatusOr<HttpCompletionRequest> ReadCompletionBody(std::string_view body, int max_depth);
absl::StatusOr<HttpCompletionRequest> ReadChatBody(std::string_view body, int max_depth);

// The `attention` value alone: a level's name or an object in JSON, as the command line takes it.
absl::StatusOr<AttentionWish> ReadAttentionText(std::string_view text);

}  // namespace thresher
