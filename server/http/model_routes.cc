#include "server/http/model_routes.h"

#include <nlohmann/json.hpp>

#include "server/requests/served_attention.h"

namespace thresher {
namespace {

using Json = nlohmann::ordered_json;

HttpReply JsonReply(const Json& body) {
  HttpReply reply;
  reply.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return reply;
}

Json ModelObject(const ServedModel& model) {
  return Json{{"id", model.name},
              {"object", "model"},
              {"created", model.created},
              {"owned_by", "thresher"},
              {"root", model.name},
              {"parent", nullptr},
              {"max_model_len", model.engine.max_model_len()}};
}

Json PhaseObject(const PolicyChoice& choice) {
  Json object{{"policy", choice.policy}};
  for (const auto& [name, value] : choice.parameters) object[name] = value;
  return object;
}

Json PolicyObject(const PolicyDescription& policy) {
  Json phases = Json::array();
  if (policy.prefill) phases.push_back("prefill");
  if (policy.decode) phases.push_back("decode");
  Json parameters = Json::array();
  for (const PolicyParameter& parameter : policy.parameters) {
    parameters.push_back({{"name", parameter.name},
                          {"type", parameter.integer ? "integer" : "number"},
                          {"minimum", parameter.minimum},
                          {"maximum", parameter.maximum},
                          {"default", parameter.default_value},
                          {"help", parameter.help}});
  }
  return Json{{"name", policy.name},
              {"phases", std::move(phases)},
              {"parameters", std::move(parameters)},
              {"help", policy.help}};
}

}  // namespace

HttpReply AnswerModels(const HttpRequest&, ServerContext& context) {
  const absl::StatusOr<const ServedModel*> model = context.state.Model();
  if (!model.ok()) return ErrorReply(model.status());
  return JsonReply(Json{{"object", "list"}, {"data", Json::array({ModelObject(**model)})}});
}

HttpReply AnswerModel(const HttpRequest& request, ServerContext& context) {
  const absl::StatusOr<const ServedModel*> model = context.state.Model();
  if (!model.ok()) return ErrorReply(model.status());
  const std::string id = request.path.substr(kModelPathPrefix.size());
  if (absl::Status status = CheckModelName(**model, id); !status.ok()) return ErrorReply(status);
  return JsonReply(ModelObject(**model));
}

HttpReply AnswerPolicies(const HttpRequest&, ServerContext& context) {
  Json policies = Json::array();
  for (const PolicyDescription& policy : ServedPolicies(context.state)) {
    policies.push_back(PolicyObject(policy));
  }
  const ThresholdTable* table = LoadedTable(context.state);
  Json table_object{{"loaded", table != nullptr}};
  if (table != nullptr) {
    table_object["min_k"] = table->min_k();
    table_object["max_k"] = table->max_k();
    table_object["min_length"] = table->min_length();
    table_object["max_length"] = table->max_length();
  }
  Json levels = Json::array();
  for (const AttentionChoice& level : context.config.levels) {
    levels.push_back({{"name", level.level},
                      {"prefill", PhaseObject(level.prefill)},
                      {"decode", PhaseObject(level.decode)}});
  }
  return JsonReply(Json{{"object", "list"},
                        {"policies", std::move(policies)},
                        {"levels", std::move(levels)},
                        {"default_level", context.config.default_level},
                        {"threshold_table", std::move(table_object)}});
}

}  // namespace thresher
