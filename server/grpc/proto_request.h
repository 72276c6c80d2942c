// gRPC messages to the requests that both wires share, and answers back to messages.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/requests/completion_request.h"
#include "server/requests/completion_stream.h"
#include "thresher/v1/inference.pb.h"

namespace thresher {

// Fills a fresh request. InvalidArgument if there is no prompt.
absl::Status ReadProto(const v1::GenerateRequest& message, CompletionRequest& request);

void FillStarted(const MappedRequest& request, v1::GenerateStarted& started);
void FillChunk(const ChoiceUpdate& update, const OutputOptions& output, const Tokenizer& tokenizer,
               v1::GenerateChunk& chunk);
void FillUsage(const StreamUsage& usage, v1::Usage& message);

}  // namespace thresher
