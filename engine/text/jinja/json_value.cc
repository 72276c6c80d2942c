#include "engine/text/jinja/json_value.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/text/jinja/error.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher::jinja {
namespace {

// Builds values as the parser meets them. Returning false stops the parser.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  absl::StatusOr<Value> Take() {
    JINJA_RETURN_IF_ERROR(status_);
    return std::move(result_);
  }

  bool null() override { return Add(Value::None()); }
  bool boolean(bool value) override { return Add(Value::Bool(value)); }
  bool number_integer(number_integer_t value) override { return Add(Value::Integer(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return Add(Value::Integer(static_cast<std::int64_t>(value)));
    }
    return Add(Value::Big(absl::StrCat(value)));
  }
  bool number_float(number_float_t value, const string_t& digits) override {
    // Python reads a long integer exactly.
    if (digits.find_first_of(".eE") == std::string::npos) return Add(Value::Big(digits));
    return Add(Value::Float(value));
  }
  bool string(string_t& value) override { return Add(Value::String(std::move(value))); }
  bool binary(binary_t&) override { return Fail("binary data"); }

  bool start_object(std::size_t) override { return Open(true); }
  bool start_array(std::size_t) override { return Open(false); }
  bool key(string_t& value) override {
    open_.back().key = std::move(value);
    return true;
  }
  bool end_object() override {
    auto dict = std::move(open_.back().dict);
    open_.pop_back();
    return Add(Value::Of(std::shared_ptr<const Dict>(std::move(dict))));
  }
  bool end_array() override {
    absl::StatusOr<Value> list = MakeSequence(SequenceKind::kList, std::move(open_.back().items));
    open_.pop_back();
    if (!list.ok()) return Fail(list.status().message());
    return Add(*std::move(list));
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Fail(absl::StrCat("is not JSON at byte ", position));
  }

 private:
  struct Container {
    std::unique_ptr<Dict> dict;  // null in a list
    std::string key;
    std::vector<Value> items;
  };

  bool Fail(absl::string_view message) {
    status_ = absl::InvalidArgumentError(message);
    return false;
  }

  bool Open(bool is_object) {
    if (static_cast<int>(open_.size()) >= kMaxJsonDepth) {
      return Fail(absl::StrCat("has more than ", kMaxJsonDepth, " brackets inside each other"));
    }
    open_.emplace_back();
    if (is_object) open_.back().dict = std::make_unique<Dict>();
    return true;
  }

  bool Add(Value value) {
    if (open_.empty()) {
      result_ = std::move(value);
    } else if (Container& container = open_.back(); container.dict == nullptr) {
      container.items.push_back(std::move(value));
    } else {
      absl::Status status =
          container.dict->Set(Value::String(std::move(container.key)), std::move(value));
      if (!status.ok()) return Fail(status.message());
    }
    return true;
  }

  std::vector<Container> open_;
  Value result_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<Value> ParseJson(std::string_view json, std::string_view field) {
  Builder builder;
  nlohmann::json::sax_parse(json, &builder);
  absl::StatusOr<Value> value = builder.Take();
  if (!value.ok()) return Failure(std::string(field), " ", value.status().message());
  return value;
}

}  // namespace thresher::jinja
