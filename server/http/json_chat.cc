#include "server/http/json_chat.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/http/json_messages.h"

namespace thresher {

using Json = nlohmann::ordered_json;

void ReadChatInput(const Json& body, int max_depth, JsonFields& fields, ChatInput& chat) {
  fields.Read("add_generation_prompt", chat.add_generation_prompt);
  fields.Read("continue_final_message", chat.continue_final_message);
  if (chat.continue_final_message) {
    // The prompt ends inside the last message, so nothing is opened after it.
    if (body.contains("add_generation_prompt") && chat.add_generation_prompt) {
      fields.Fail("continue_final_message",
                  "continue_final_message and add_generation_prompt exclude each other");
    }
    chat.add_generation_prompt = false;
  }
  if (const Json* kwargs = fields.Find("chat_template_kwargs"); kwargs != nullptr) {
    if (!kwargs->is_object()) {
      fields.Fail(
          "chat_template_kwargs",
          absl::StrCat("chat_template_kwargs must be an object, not ", JsonTypeName(*kwargs)));
    }
    chat.template_kwargs = kwargs->dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  if (!fields.status().ok()) return;
  const Json* messages = fields.Find("messages");
  if (messages == nullptr) return fields.Fail("messages", "messages is missing");
  absl::StatusOr<std::string> normalized = NormalizeMessages(*messages, max_depth);
  if (!normalized.ok()) return fields.Fail(normalized.status());
  chat.messages = *std::move(normalized);
}

}  // namespace thresher
