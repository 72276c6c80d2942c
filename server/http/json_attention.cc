#include "server/http/json_attention.h"

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/text/excerpt.h"
#include "server/http/json_fields.h"
#include "server/requests/wire_error.h"

namespace thresher {
namespace {

using Json = nlohmann::ordered_json;

absl::Status ReadPhase(const Json& object, const std::string& path, PhaseWish& wish) {
  if (!object.is_object()) {
    return InvalidField(path, absl::StrCat(path, " must be an object, not ", JsonTypeName(object)));
  }
  for (const auto& [key, value] : object.items()) {
    const std::string field = absl::StrCat(path, ".", Excerpt(key));
    if (key == "policy") {
      if (!value.is_string()) {
        return InvalidField(field,
                            absl::StrCat(field, " must be a string, not ", JsonTypeName(value)));
      }
      wish.policy = value.get_ref<const std::string&>();
    } else if (value.is_number()) {
      wish.parameters.emplace_back(key, value.get<double>());
    } else {
      return InvalidField(field,
                          absl::StrCat(field, " must be a number, not ", JsonTypeName(value)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AttentionWish> ReadAttention(const Json& value) {
  AttentionWish wish;
  wish.given = true;
  if (value.is_string()) {
    wish.level = value.get_ref<const std::string&>();
    return wish;
  }
  if (!value.is_object()) {
    return InvalidField(
        "attention",
        absl::StrCat("attention must be a level's name or an object, not ", JsonTypeName(value)));
  }
  for (const auto& [key, member] : value.items()) {
    absl::Status status;
    if (key == "level") {
      if (!member.is_string()) {
        return InvalidField(
            "attention.level",
            absl::StrCat("attention.level must be a string, not ", JsonTypeName(member)));
      }
      wish.level = member.get_ref<const std::string&>();
    } else if (key == "prefill") {
      status = ReadPhase(member, "attention.prefill", wish.prefill);
    } else if (key == "decode") {
      status = ReadPhase(member, "attention.decode", wish.decode);
    } else {
      const std::string field = absl::StrCat("attention.", Excerpt(key));
      status = InvalidField(
          field, absl::StrCat(field, " is not known; attention has level, prefill and decode"));
    }
    if (!status.ok()) return status;
  }
  return wish;
}

}  // namespace thresher
