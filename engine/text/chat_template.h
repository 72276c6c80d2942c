// A model's chat template: a subset of Jinja, run on messages to make a prompt.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace thresher {

struct ChatTemplateInput {
  // JSON text, key order kept: `messages` an array of objects, `tools` an array or empty (none),
  // `extra` an object of chat_template_kwargs or empty.
  std::string messages;
  std::string tools;
  std::string extra;
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the prompt ends inside the last message
  absl::Time now;                       // for strftime_now, in time_zone
  absl::TimeZone time_zone = absl::UTCTimeZone();
};

// Immutable; any thread.
class ChatTemplate {
 public:
  // Unimplemented naming the construct and its line if the subset lacks it; InvalidArgument for a
  // syntax error. bos_token and eos_token are the template's variables of that name.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Parse(std::string_view source,
                                                             std::string_view bos_token,
                                                             std::string_view eos_token);
  virtual ~ChatTemplate() = default;
  // InvalidArgument: the template called raise_exception (its message), met a value it cannot use,
  // or went over a bound (steps, output size, nesting).
  virtual absl::StatusOr<std::string> Render(const ChatTemplateInput& input) const = 0;
};

}  // namespace thresher
