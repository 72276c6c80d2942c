#include "server/config/flag_parser.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"
#include "server/config/text_file.h"
#include "thresher/v1/config.pb.h"

namespace thresher {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

bool IsFlag(const FieldDescriptor& field) {
  if (field.is_repeated()) return field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  return field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE;
}

bool LooksLikeAFlag(const std::string& argument) { return argument.compare(0, 2, "--") == 0; }

std::string FlagName(const FieldDescriptor& field) {
  return absl::StrReplaceAll(field.name(), {{"_", "-"}});
}

const FieldDescriptor* FindFlag(const Message& message, const std::string& name) {
  const std::string field_name = absl::StrReplaceAll(name, {{"-", "_"}});
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(field_name);
  return field != nullptr && IsFlag(*field) ? field : nullptr;
}

absl::Status WrongType(const std::string& name, const std::string& value, const char* expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", name, " is '", value, "'; it must be ", expected));
}

absl::Status SetField(const FieldDescriptor& field, const std::string& value, Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const std::string name = FlagName(field);
  if (field.is_repeated()) {
    reflection.AddString(&message, &field, value);
    return absl::OkStatus();
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      reflection.SetString(&message, &field, value);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_BOOL: {
      bool parsed = false;
      if (!absl::SimpleAtob(value, &parsed)) return WrongType(name, value, "true or false");
      reflection.SetBool(&message, &field, parsed);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT32: {
      std::int32_t parsed = 0;
      if (!absl::SimpleAtoi(value, &parsed)) return WrongType(name, value, "a 32-bit whole number");
      reflection.SetInt32(&message, &field, parsed);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      std::int64_t parsed = 0;
      if (!absl::SimpleAtoi(value, &parsed)) return WrongType(name, value, "a whole number");
      reflection.SetInt64(&message, &field, parsed);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double parsed = 0;
      if (!absl::SimpleAtod(value, &parsed)) return WrongType(name, value, "a number");
      reflection.SetDouble(&message, &field, parsed);
      return absl::OkStatus();
    }
    default:
      return absl::InternalError(absl::StrCat("--", name, " has a type that no flag has"));
  }
}

std::string ValueText(const FieldDescriptor& field, const Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (field.is_repeated()) return "";
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.GetString(message, &field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, &field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(reflection.GetInt32(message, &field));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(reflection.GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return absl::StrCat(reflection.GetDouble(message, &field));
    default:
      return "";
  }
}

const char* TypeText(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return field.is_repeated() ? "TEXT..." : "TEXT";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "";
    default:
      return "N";
  }
}

class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text.empty()) text = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  std::string text;
};

}  // namespace

absl::Status ParseFlags(const std::vector<std::string>& arguments, Message& message) {
  std::vector<const FieldDescriptor*> seen;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.size() < 3 || !LooksLikeAFlag(argument)) {
      return absl::InvalidArgumentError(absl::StrCat("'", argument, "' is not a flag"));
    }
    const std::size_t equals = argument.find('=');
    std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    const FieldDescriptor* field = FindFlag(message, name);
    bool negated = false;
    if (field == nullptr && name.compare(0, 3, "no-") == 0) {
      field = FindFlag(message, name.substr(3));
      negated = field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL;
      if (!negated) field = nullptr;
    }
    if (field == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("unknown flag --", name));
    }
    if (!field->is_repeated() && std::find(seen.begin(), seen.end(), field) != seen.end()) {
      return absl::InvalidArgumentError(absl::StrCat("--", FlagName(*field), " is given twice"));
    }
    seen.push_back(field);
    std::string value;
    if (negated) {
      if (equals != std::string::npos) {
        return absl::InvalidArgumentError(absl::StrCat("--", name, " takes no value"));
      }
      value = "false";
    } else if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
      value = "true";
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    } else {
      return absl::InvalidArgumentError(absl::StrCat("--", name, " needs a value"));
    }
    if (absl::Status status = SetField(*field, value, message); !status.ok()) return status;
    // "--text A B" is "--text A --text B".
    while (field->is_repeated() && i + 1 < arguments.size() && !LooksLikeAFlag(arguments[i + 1])) {
      if (absl::Status status = SetField(*field, arguments[++i], message); !status.ok()) {
        return status;
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ReadConfigFile(const std::string& path, Message& message) {
  const absl::StatusOr<std::string> text = ReadFileOf("--config", path);
  if (!text.ok()) return text.status();
  FirstError errors;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  if (!parser.MergeFromString(*text, &message)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", errors.text));
  }
  return absl::OkStatus();
}

std::string FlagHelp(const Message& defaults) {
  std::string help;
  const google::protobuf::Descriptor& type = *defaults.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (!IsFlag(field)) continue;
    std::string left = absl::StrCat("  --", FlagName(field), " ", TypeText(field));
    left.resize(std::max<std::size_t>(left.size() + 1, 34), ' ');
    const std::string value = ValueText(field, defaults);
    absl::StrAppend(&help, left, field.options().GetExtension(v1::help),
                    value.empty() ? "" : absl::StrCat(" (", value, ")"), "\n");
  }
  return help;
}

}  // namespace thresher
