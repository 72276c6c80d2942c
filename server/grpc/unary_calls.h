// The calls that answer once. Each may tokenise, so they run on a worker.
#pragma once

#include "absl/status/status.h"
#include "server/server_context.h"
#include "thresher/v1/inference.pb.h"

namespace thresher {

absl::Status AnswerAbort(ServerContext& context, const v1::AbortRequest& request,
                         v1::AbortResponse& response);
absl::Status AnswerTokenize(ServerContext& context, const v1::TokenizeRequest& request,
                            v1::TokenizeResponse& response);
absl::Status AnswerDetokenize(ServerContext& context, const v1::DetokenizeRequest& request,
                              v1::DetokenizeResponse& response);
absl::Status AnswerListModels(ServerContext& context, const v1::ListModelsRequest& request,
                              v1::ListModelsResponse& response);
absl::Status AnswerListPolicies(ServerContext& context,
                                const v1::ListAttentionPoliciesRequest& request,
                                v1::ListAttentionPoliciesResponse& response);
absl::Status AnswerLoad(ServerContext& context, const v1::GetLoadRequest& request,
                        v1::GetLoadResponse& response);

}  // namespace thresher
