// json.dumps, as Hugging Face's tojson calls it.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/text/jinja/error.h"
#include "engine/text/jinja/print.h"
#include "engine/text/jinja/python_text.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher::jinja {
namespace {

void AppendUnit(unsigned unit, std::string& out) { absl::StrAppendFormat(&out, "\\u%04x", unit); }

void AppendQuoted(std::string_view text, bool ensure_ascii, std::string& out) {
  out += '"';
  for (std::size_t position = 0; position < text.size();) {
    std::size_t start = position;
    char32_t code = NextCodePoint(text, position);
    switch (code) {
      case '"':
        out += "\\\"";
        continue;
      case '\\':
        out += "\\\\";
        continue;
      case '\n':
        out += "\\n";
        continue;
      case '\r':
        out += "\\r";
        continue;
      case '\t':
        out += "\\t";
        continue;
      case '\f':
        out += "\\f";
        continue;
      case '\b':
        out += "\\b";
        continue;
      default:
        break;
    }
    if (code < 0x20 || (ensure_ascii && code >= 0x7f && code < 0x10000)) {
      AppendUnit(code, out);
    } else if (ensure_ascii && code >= 0x10000) {
      AppendUnit(0xd800 + ((code - 0x10000) >> 10), out);
      AppendUnit(0xdc00 + ((code - 0x10000) & 0x3ff), out);
    } else {
      out += text.substr(start, position - start);
    }
  }
  out += '"';
}

class JsonPrinter {
 public:
  JsonPrinter(Budget& budget, const JsonStyle& style, std::string& out)
      : budget_(budget), style_(style), out_(out) {}

  absl::Status Print(const Value& value) {
    JINJA_RETURN_IF_ERROR(budget_.Step());
    switch (value.kind()) {
      case Kind::kNone:
        return Add("null");
      case Kind::kBool:
        return Add(value.boolean() ? "true" : "false");
      case Kind::kInteger:
        return Add(absl::StrCat(value.integer()));
      case Kind::kBigInteger:
        return Add(value.digits());
      case Kind::kFloat:
        return Add(Number(value.number()));
      case Kind::kString:
        return AddQuoted(value.text());
      case Kind::kDict:
        return PrintDict(value.dict());
      case Kind::kSequence: {
        const Sequence& sequence = value.sequence();
        if (sequence.kind == SequenceKind::kList || sequence.kind == SequenceKind::kTuple) {
          return PrintItems(sequence);
        }
        break;
      }
      default:
        break;
    }
    return Failure("Object of type ", TypeName(value), " is not JSON serializable");
  }

 private:
  static std::string Number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return FloatRepr(value);
  }

  absl::Status Add(std::string_view text) {
    JINJA_RETURN_IF_ERROR(budget_.Text(static_cast<std::int64_t>(text.size())));
    if (out_.size() + text.size() > static_cast<std::size_t>(budget_.limits().max_text_bytes)) {
      return budget_.Text(budget_.limits().max_text_bytes + 1);
    }
    out_ += text;
    return absl::OkStatus();
  }

  absl::Status AddQuoted(std::string_view text) {
    std::string quoted;
    quoted.reserve(text.size() + 2);
    AppendQuoted(text, style_.ensure_ascii, quoted);
    return Add(quoted);
  }

  absl::Status NewLine() {
    if (!style_.indent) return absl::OkStatus();
    JINJA_RETURN_IF_ERROR(
        budget_.Text(static_cast<std::int64_t>(style_.indent->size()) * depth_ + 1));
    std::string line = "\n";
    for (int i = 0; i < depth_; ++i) line += *style_.indent;
    return Add(line);
  }

  absl::Status PrintItems(const Sequence& sequence) {
    if (sequence.items.empty()) return Add("[]");
    JINJA_RETURN_IF_ERROR(Add("["));
    ++depth_;
    bool first = true;
    for (const Value& item : sequence.items) {
      if (!first) JINJA_RETURN_IF_ERROR(Add(style_.item_separator));
      first = false;
      JINJA_RETURN_IF_ERROR(NewLine());
      JINJA_RETURN_IF_ERROR(Print(item));
    }
    --depth_;
    JINJA_RETURN_IF_ERROR(NewLine());
    return Add("]");
  }

  absl::StatusOr<std::string> Key(const Value& key) {
    switch (key.kind()) {
      case Kind::kString:
        return key.text();
      case Kind::kNone:
        return std::string("null");
      case Kind::kBool:
        return std::string(key.boolean() ? "true" : "false");
      case Kind::kInteger:
        return absl::StrCat(key.integer());
      case Kind::kBigInteger:
        return key.digits();
      case Kind::kFloat:
        return Number(key.number());
      default:
        return Failure("keys must be str, int, float, bool or None, not ", TypeName(key));
    }
  }

  absl::Status PrintDict(const Dict& dict) {
    if (dict.size() == 0) return Add("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      absl::Status status;
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* left, const auto* right) {
        absl::StatusOr<bool> less = Less(left->first, right->first);
        if (!less.ok()) status = less.status();
        return less.value_or(false);
      });
      JINJA_RETURN_IF_ERROR(status);
    }
    JINJA_RETURN_IF_ERROR(Add("{"));
    ++depth_;
    bool first = true;
    for (const auto* entry : entries) {
      if (!first) JINJA_RETURN_IF_ERROR(Add(style_.item_separator));
      first = false;
      JINJA_RETURN_IF_ERROR(NewLine());
      JINJA_ASSIGN_OR_RETURN(std::string key, Key(entry->first));
      JINJA_RETURN_IF_ERROR(AddQuoted(key));
      JINJA_RETURN_IF_ERROR(Add(style_.key_separator));
      JINJA_RETURN_IF_ERROR(Print(entry->second));
    }
    --depth_;
    JINJA_RETURN_IF_ERROR(NewLine());
    return Add("}");
  }

  Budget& budget_;
  const JsonStyle& style_;
  std::string& out_;
  int depth_ = 0;
};

}  // namespace

absl::Status AppendJson(Budget& budget, const Value& value, const JsonStyle& style,
                        std::string& out) {
  return JsonPrinter(budget, style, out).Print(value);
}

}  // namespace thresher::jinja
