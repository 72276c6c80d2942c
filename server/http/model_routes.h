// Answers about the model and its attention policies.
#pragma once

#include <string_view>

#include "server/http/http_message.h"
#include "server/server_context.h"

namespace thresher {

inline constexpr std::string_view kModelPathPrefix = "/v1/models/";

HttpReply AnswerModels(const HttpRequest& request, ServerContext& context);
HttpReply AnswerModel(const HttpRequest& request, ServerContext& context);
HttpReply AnswerPolicies(const HttpRequest& request, ServerContext& context);

}  // namespace thresher
