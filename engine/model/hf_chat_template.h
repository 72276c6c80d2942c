// Finds the chat template among the files of a Hugging Face folder.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace thresher {

// chat_template.jinja wins; else tokenizer_config.json's chat_template, a string or a list of named
// ones, of which "default" is taken. Either text is empty if there is no such file. Absent if
// neither has one; InvalidArgument if tokenizer_config.json is damaged.
absl::StatusOr<std::optional<std::string>> ChatTemplateFromHuggingFace(
    std::string_view jinja, std::string_view tokenizer_config_json);

}  // namespace thresher
