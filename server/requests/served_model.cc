#include "server/requests/served_model.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "engine/text/excerpt.h"
#include "server/requests/wire_error.h"

namespace thresher {

std::string ModelName(const ServerConfig& config) {
  if (!config.served_model_name.empty()) return config.served_model_name;
  const std::filesystem::path path(config.engine.model_path);
  // "folder/" has an empty file name.
  const std::filesystem::path last = path.has_filename() ? path : path.parent_path();
  const std::string name = last.filename().string();
  return last.extension() == ".gguf" ? last.stem().string() : name;
}

ServedModel::ServedModel(Engine& served_engine, const ServerConfig& config,
                         std::int64_t created_seconds)
    : engine(served_engine),
      name(ModelName(config)),
      created(created_seconds),
      encoder(served_engine.tokenizer(), served_engine.chat_template(),
              served_engine.max_model_len()),
      limits(config.limits),
      levels(config.levels),
      default_level(config.default_level) {}

absl::Status CheckModelName(const ServedModel& model, const std::string& name) {
  if (name == model.name || name == kDefaultModelName) return absl::OkStatus();
  return WireError(
      absl::StatusCode::kNotFound, "model_not_found", "model",
      absl::StrCat("model '", Excerpt(name), "' is not served here; '", model.name, "' is"));
}

}  // namespace thresher
