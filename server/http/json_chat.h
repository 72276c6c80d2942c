// The fields of a body that make a chat's prompt; the same for /v1/chat/completions and /tokenize.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "server/http/json_fields.h"
#include "server/requests/completion_request.h"

namespace thresher {

// `body` is the object that `fields` reads. Errors go to `fields`, each naming its field.
void ReadChatInput(const nlohmann::ordered_json& body, int max_depth, JsonFields& fields,
                   ChatInput& chat);

}  // namespace thresher
