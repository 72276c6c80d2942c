#include "server/http/json_messages.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "engine/text/excerpt.h"
#include "server/http/json_fields.h"
#include "server/http/json_reader.h"
#include "server/requests/wire_error.h"

namespace thresher {
namespace {

using Json = nlohmann::ordered_json;

absl::Status WrongType(const std::string& field, const char* expected, const Json& value) {
  return InvalidField(field,
                      absl::StrCat(field, " must be ", expected, ", not ", JsonTypeName(value)));
}

// Parts are joined by a line break, as peers do.
absl::Status JoinParts(const std::string& field, Json& content) {
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const Json& part = content[i];
    const std::string place = absl::StrCat(field, "[", i, "]");
    if (!part.is_object()) return WrongType(place, "an object", part);
    const auto type = part.find("type");
    if (type == part.end() || !type->is_string()) {
      return InvalidField(place, absl::StrCat(place, ".type is missing"));
    }
    if (*type != "text") {
      return InvalidField(
          place + ".type",
          absl::StrCat(place, ".type is '", Excerpt(type->get_ref<const std::string&>()),
                       "'; this model reads text only"));
    }
    const auto value = part.find("text");
    if (value == part.end() || !value->is_string()) {
      return InvalidField(place + ".text", absl::StrCat(place, ".text must be a string"));
    }
    if (i > 0) text += '\n';
    text += value->get_ref<const std::string&>();
  }
  content = std::move(text);
  return absl::OkStatus();
}

// Templates iterate over a call's arguments as a mapping; the wire carries them as JSON text.
absl::Status ReadToolCalls(const std::string& field, int max_depth, Json& calls) {
  if (!calls.is_array()) return WrongType(field, "an array", calls);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string place = absl::StrCat(field, "[", i, "].function");
    if (!calls[i].is_object())
      return WrongType(absl::StrCat(field, "[", i, "]"), "an object", calls[i]);
    const auto function = calls[i].find("function");
    if (function == calls[i].end() || !function->is_object()) {
      return InvalidField(place, absl::StrCat(place, " must be an object"));
    }
    const auto arguments = function->find("arguments");
    if (arguments == function->end() || arguments->is_object()) continue;
    if (!arguments->is_string()) return WrongType(place + ".arguments", "a string", *arguments);
    absl::StatusOr<Json> parsed =
        ParseJsonObject(arguments->get_ref<const std::string&>(), max_depth);
    if (!parsed.ok()) {
      return InvalidField(place + ".arguments",
                          absl::StrCat(place, ".arguments must be the text of a JSON object"));
    }
    *arguments = *std::move(parsed);
  }
  return absl::OkStatus();
}

absl::Status NormalizeMessage(const std::string& place, int max_depth, Json& message) {
  if (!message.is_object()) return WrongType(place, "an object", message);
  const auto role = message.find("role");
  if (role == message.end()) {
    return InvalidField(place + ".role", absl::StrCat(place, ".role is missing"));
  }
  if (!role->is_string()) return WrongType(place + ".role", "a string", *role);
  const auto calls = message.find("tool_calls");
  const bool has_calls = calls != message.end() && !calls->is_null();
  if (has_calls) {
    if (absl::Status status = ReadToolCalls(place + ".tool_calls", max_depth, *calls);
        !status.ok()) {
      return status;
    }
  }
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) {
    if (has_calls) return absl::OkStatus();
    return InvalidField(place + ".content", absl::StrCat(place, ".content is missing"));
  }
  if (content->is_array()) return JoinParts(place + ".content", *content);
  if (!content->is_string()) {
    return WrongType(place + ".content", "a string or an array of parts", *content);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> NormalizeMessages(const Json& messages, int max_depth) {
  if (!messages.is_array()) return WrongType("messages", "an array", messages);
  if (messages.empty()) return InvalidField("messages", "messages is empty");
  Json normalized = messages;
  for (std::size_t i = 0; i < normalized.size(); ++i) {
    if (absl::Status status =
            NormalizeMessage(absl::StrCat("messages[", i, "]"), max_depth, normalized[i]);
        !status.ok()) {
      return status;
    }
  }
  return normalized.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace thresher
