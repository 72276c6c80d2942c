// A request's wish for attention, from either wire, resolved against the configured levels.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/attention/attention_choice.h"
#include "thresher/v1/attention.pb.h"

namespace thresher {

// One phase as the client wrote it: only what was given.
struct PhaseWish {
  std::optional<std::string> policy;
  std::vector<std::pair<std::string, double>> parameters;
  bool empty() const { return !policy.has_value() && parameters.empty(); }
};

struct AttentionWish {
  bool given = false;  // there was a block, even an empty one
  std::optional<std::string> level;
  PhaseWish prefill;
  PhaseWish decode;
};

// Body, then the fallback levels in their order (header, key), then the server's default.
// InvalidArgument naming the field for an unknown level, policy or parameter.
absl::StatusOr<AttentionChoice> ResolveAttention(const AttentionWish& wish,
                                                 std::string_view header_level,
                                                 std::string_view key_level,
                                                 const std::vector<AttentionChoice>& levels,
                                                 std::string_view default_level);

// The same without a check of policies and parameters: InvalidArgument for an unknown level alone.
absl::StatusOr<AttentionChoice> MergeAttention(const AttentionWish& wish,
                                               std::string_view header_level,
                                               std::string_view key_level,
                                               const std::vector<AttentionChoice>& levels,
                                               std::string_view default_level);

AttentionWish WishFromProto(const v1::AttentionOptions& options);
// InvalidArgument if gRPC has no message for a policy or parameter, or a phase names no policy.
absl::Status WishToProto(const AttentionWish& wish, v1::AttentionOptions& options);
// A configured row. InvalidArgument naming the level and the field.
absl::StatusOr<AttentionChoice> LevelFromProto(const v1::AttentionLevel& level);
void LevelToProto(const AttentionChoice& choice, v1::AttentionLevel& level);

// Null if there is none of that name.
const AttentionChoice* FindLevel(const std::vector<AttentionChoice>& levels, std::string_view name);
std::string LevelNames(const std::vector<AttentionChoice>& levels);  // "off, balanced"

}  // namespace thresher
