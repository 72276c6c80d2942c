// Questions about something said far back in a long text, with answers that can be checked exactly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace thresher {

enum class TaskKind : std::uint8_t {
  kSingleNeedle,      // one fact in the text, asked for at the end
  kMultiKeyNeedle,    // one of several facts of the same form
  kVariableTracking,  // every name that a chain of assignments gave one value
  kCommonWords,       // the words that a list repeats most
};
inline constexpr TaskKind kAllTaskKinds[] = {TaskKind::kSingleNeedle, TaskKind::kMultiKeyNeedle,
                                             TaskKind::kVariableTracking, TaskKind::kCommonWords};
std::string_view Name(TaskKind kind);

struct Task {
  std::string prompt;
  std::vector<std::string> answers;
};

// The same task for the same arguments. `haystack` is text to hide the facts in; about
// `haystack_bytes` of it are used, starting at a place that the seed chooses, cut at spaces.
// kCommonWords makes a list of about that length and does not read the haystack.
Task MakeTask(TaskKind kind, std::uint64_t seed, std::string_view haystack,
              std::size_t haystack_bytes);

// The share of the answers that the text contains as whole words, 0 … 1.
double ScoreAnswer(const Task& task, std::string_view text);

}  // namespace thresher
