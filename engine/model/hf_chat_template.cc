#include "engine/model/hf_chat_template.h"

#include <nlohmann/json.hpp>

#include "engine/model/field_reader.h"

namespace thresher {
namespace {

std::optional<std::string> StringField(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

}  // namespace

absl::StatusOr<std::optional<std::string>> ChatTemplateFromHuggingFace(
    std::string_view jinja, std::string_view tokenizer_config_json) {
  if (!jinja.empty()) return std::optional<std::string>(jinja);
  if (tokenizer_config_json.empty()) return std::optional<std::string>();
  nlohmann::json config;
  absl::Status status = ParseJsonObject(tokenizer_config_json, "tokenizer_config.json", config);
  if (!status.ok()) return status;
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return std::optional<std::string>();
  if (found->is_string()) return std::optional<std::string>(found->get<std::string>());
  if (found->is_array()) {
    for (const nlohmann::json& named : *found) {
      if (StringField(named, "name") != "default") continue;
      if (std::optional<std::string> text = StringField(named, "template")) return text;
    }
  }
  return absl::InvalidArgumentError(
      "tokenizer_config.json: chat_template is neither a string nor a list with one named "
      "'default'");
}

}  // namespace thresher
