#include "server/http/json_reader.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/text/excerpt.h"
#include "server/requests/wire_error.h"

namespace thresher {
namespace {

using Json = nlohmann::ordered_json;

// Why the library refuses a text. Its own message is "[class] parse error at …: syntax error while
// parsing … - REASON; last read: 'TEXT'", where the text has no bound.
std::string Reason(const nlohmann::detail::exception& error) {
  constexpr int kNumberOverflow = 406;
  if (error.id == kNumberOverflow) return "a number is out of range";
  std::string reason = error.what();
  reason.resize(std::min(reason.find("; last read: "), reason.size()));
  for (const char* before : {"]", ": ", " - "}) {
    const std::size_t found = reason.find(before);
    if (found != std::string::npos) reason.erase(0, found + std::strlen(before));
  }
  return reason;
}

// Builds the document from the parser's events. Objects are filled by appending, since ordered
// objects search their keys one by one; duplicates are found in a set beside them.
class DocumentBuilder final : public nlohmann::json_sax<Json> {
 public:
  explicit DocumentBuilder(int max_depth) : max_depth_(max_depth) {}

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t&) override { return Add(value); }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return Open(Json::object()); }
  bool start_array(std::size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& key) override {
    Frame& frame = open_.back();
    if (!frame.keys.insert(key).second) {
      return Fail(absl::StrCat("the key '", Excerpt(key), "' is given twice in one object"));
    }
    frame.key = std::move(key);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    return Fail(absl::StrCat("not valid JSON at byte ", position, ": ", Reason(error)));
  }

  const std::string& error() const { return error_; }
  Json Take() { return std::move(document_); }

 private:
  struct Frame {
    Json value;
    std::string key;
    std::unordered_set<std::string> keys;
  };

  bool Fail(std::string error) {
    error_ = std::move(error);
    return false;
  }

  bool Open(Json value) {
    if (static_cast<int>(open_.size()) >= max_depth_) {
      return Fail(absl::StrCat("nested deeper than ", max_depth_));
    }
    open_.emplace_back();
    open_.back().value = std::move(value);
    return true;
  }

  bool Close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return Add(std::move(value));
  }

  template <typename T>
  bool Add(T&& value) {
    if (open_.empty()) {
      document_ = Json(std::forward<T>(value));
      return true;
    }
    Frame& frame = open_.back();
    if (frame.value.is_array()) {
      frame.value.get_ref<Json::array_t&>().emplace_back(std::forward<T>(value));
    } else {
      using Members = std::vector<std::pair<const std::string, Json>>;
      static_cast<Members&>(frame.value.get_ref<Json::object_t&>())
          .emplace_back(std::move(frame.key), Json(std::forward<T>(value)));
    }
    return true;
  }

  const int max_depth_;
  std::vector<Frame> open_;
  Json document_;
  std::string error_;
};

// Replaces bytes that are not UTF-8, so that the message itself can be sent.
std::string Printable(const std::string& text) {
  return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace

absl::StatusOr<Json> ParseJson(std::string_view text, int max_depth) {
  DocumentBuilder builder(max_depth);
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
    std::string message = Printable(builder.error());
    message = message.substr(1, message.size() - 2);
    return WireError(absl::StatusCode::kInvalidArgument, "invalid_json", "",
                     absl::StrCat("the body is ", message));
  }
  return builder.Take();
}

absl::StatusOr<Json> ParseJsonObject(std::string_view text, int max_depth) {
  absl::StatusOr<Json> document = ParseJson(text, max_depth);
  if (document.ok() && !document->is_object()) {
    return WireError(absl::StatusCode::kInvalidArgument, "invalid_json", "",
                     "the body must be a JSON object");
  }
  return document;
}

}  // namespace thresher
