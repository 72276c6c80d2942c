// A request's messages as a chat template expects them, which is not always as they came.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/text/jinja/value.h"

namespace thresher {

// Follows Hugging Face's apply_chat_template, and what servers add to it:
//   - a key whose value is null is dropped;
//   - `reasoning_content`, `thinking` and `reasoning` are one field under three names;
//   - the arguments of a tool call, a string on the wire, become the object that they spell;
//   - content in parts becomes one text, its parts joined by a line end, unless the template walks
//     over `content` itself.
// InvalidArgument naming the message: no list, no object, a part that is no text.
absl::StatusOr<jinja::Value> PrepareMessages(const jinja::Value& messages,
                                             bool template_walks_content);

// For continue_final_message: the last message's text, with kContinueMark after it in `messages`.
// InvalidArgument if there is no such text.
inline constexpr std::string_view kContinueMark = "CONTINUE_FINAL_MESSAGE_TAG ";
struct MarkedMessages {
  jinja::Value messages;
  std::string final_text;
};
absl::StatusOr<MarkedMessages> MarkFinalMessage(const jinja::Value& messages);

// Cuts a prompt of marked messages where the mark stands. InvalidArgument if the template left the
// last message's text out.
absl::StatusOr<std::string> CutAtMark(std::string prompt, std::string_view final_text);

}  // namespace thresher
