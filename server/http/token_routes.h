// Text to token ids and back, as vLLM's routes of the same names.
#pragma once

#include "server/http/http_message.h"
#include "server/server_context.h"

namespace thresher {

HttpReply AnswerTokenize(const HttpRequest& request, ServerContext& context);
HttpReply AnswerDetokenize(const HttpRequest& request, ServerContext& context);

}  // namespace thresher
