#include "server/grpc/unary_calls.h"

#include "absl/strings/str_cat.h"
#include "server/requests/served_attention.h"
#include "server/requests/wire_error.h"

namespace thresher {
namespace {

// The model for new work, if it has the name that the request gives.
absl::StatusOr<const ServedModel*> ModelOf(ServerContext& context, const std::string& name) {
  absl::StatusOr<const ServedModel*> model = context.state.Admit();
  if (!model.ok() || name.empty()) return model;
  if (absl::Status status = CheckModelName(**model, name); !status.ok()) return status;
  return model;
}

}  // namespace

absl::Status AnswerAbort(ServerContext& context, const v1::AbortRequest& request,
                         v1::AbortResponse&) {
  const absl::StatusOr<const ServedModel*> model = context.state.Model();
  if (!model.ok()) return model.status();
  return (*model)->engine.Abort(request.request_id());
}

absl::Status AnswerTokenize(ServerContext& context, const v1::TokenizeRequest& request,
                            v1::TokenizeResponse& response) {
  const absl::StatusOr<const ServedModel*> model = ModelOf(context, request.model());
  if (!model.ok()) return model.status();
  std::vector<TokenId> ids;
  const bool special = !request.has_add_special_tokens() || request.add_special_tokens();
  if (absl::Status status = (*model)->encoder.EncodeText("text", request.text(), special, ids);
      !status.ok()) {
    return status;
  }
  response.mutable_token_ids()->Add(ids.begin(), ids.end());
  for (TokenId id : ids) {
    response.add_tokens(std::string((*model)->engine.tokenizer().TokenBytes(id)));
  }
  response.set_max_model_len((*model)->engine.max_model_len());
  return absl::OkStatus();
}

absl::Status AnswerDetokenize(ServerContext& context, const v1::DetokenizeRequest& request,
                              v1::DetokenizeResponse& response) {
  const absl::StatusOr<const ServedModel*> model = ModelOf(context, request.model());
  if (!model.ok()) return model.status();
  const int vocab_size = (*model)->engine.model_config().vocab_size;
  std::vector<TokenId> ids(request.token_ids().begin(), request.token_ids().end());
  for (TokenId id : ids) {
    if (id >= 0 && id < vocab_size) continue;
    return InvalidField(
        "token_ids", absl::StrCat("token_ids holds ", id, "; ids go from 0 to ", vocab_size - 1));
  }
  response.set_text(Decode((*model)->engine.tokenizer(), ids, false));
  return absl::OkStatus();
}

absl::Status AnswerListModels(ServerContext& context, const v1::ListModelsRequest&,
                              v1::ListModelsResponse& response) {
  const absl::StatusOr<const ServedModel*> model = context.state.Model();
  if (!model.ok()) return model.status();
  v1::Model& message = *response.add_models();
  message.set_id((*model)->name);
  message.set_created((*model)->created);
  message.set_max_model_len((*model)->engine.max_model_len());
  return absl::OkStatus();
}

absl::Status AnswerListPolicies(ServerContext& context, const v1::ListAttentionPoliciesRequest&,
                                v1::ListAttentionPoliciesResponse& response) {
  for (const PolicyDescription& policy : ServedPolicies(context.state)) {
    v1::AttentionPolicy& message = *response.add_policies();
    message.set_name(policy.name);
    message.set_prefill(policy.prefill);
    message.set_decode(policy.decode);
    message.set_help(policy.help);
    for (const PolicyParameter& parameter : policy.parameters) {
      v1::PolicyParameter& row = *message.add_parameters();
      row.set_name(parameter.name);
      row.set_minimum(parameter.minimum);
      row.set_maximum(parameter.maximum);
      row.set_default_value(parameter.default_value);
      row.set_integer(parameter.integer);
      row.set_help(parameter.help);
    }
  }
  for (const AttentionChoice& level : context.config.levels) {
    LevelToProto(level, *response.add_levels());
  }
  response.set_default_level(context.config.default_level);
  if (const ThresholdTable* table = LoadedTable(context.state); table != nullptr) {
    response.set_threshold_table_loaded(true);
    response.set_min_k(table->min_k());
    response.set_max_k(table->max_k());
    response.set_min_length(table->min_length());
    response.set_max_length(table->max_length());
  }
  return absl::OkStatus();
}

absl::Status AnswerLoad(ServerContext& context, const v1::GetLoadRequest&,
                        v1::GetLoadResponse& response) {
  const absl::StatusOr<const ServedModel*> model = context.state.Model();
  if (!model.ok()) return model.status();
  const EngineLoad load = (*model)->engine.load();
  response.set_running(load.running);
  response.set_waiting(load.waiting);
  response.set_kv_usage(load.kv_usage);
  response.set_tokens_per_second(load.tokens_per_second);
  return absl::OkStatus();
}

}  // namespace thresher
