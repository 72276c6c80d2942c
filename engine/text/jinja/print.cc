#include "engine/text/jinja/print.h"

#include "absl/strings/str_cat.h"
#include "engine/text/jinja/builtins.h"
#include "engine/text/jinja/error.h"
#include "engine/text/jinja/python_text.h"
#include "engine/text/jinja/scope.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher::jinja {
namespace {

// Namespaces may hold themselves.
constexpr int kMaxShownNamespaces = 8;

class Printer {
 public:
  Printer(Budget& budget, std::string& out) : budget_(budget), out_(out) {}

  absl::Status Repr(const Value& value) {
    // Charged before it is written; a container is charged for its parts.
    JINJA_RETURN_IF_ERROR(budget_.Step());
    switch (value.kind()) {
      case Kind::kUndefined:
        out_ += "Undefined";
        return absl::OkStatus();
      case Kind::kNone:
        out_ += "None";
        return absl::OkStatus();
      case Kind::kBool:
        out_ += value.boolean() ? "True" : "False";
        return absl::OkStatus();
      case Kind::kInteger:
        absl::StrAppend(&out_, value.integer());
        return absl::OkStatus();
      case Kind::kBigInteger:
        return Add(value.digits());
      case Kind::kFloat:
        out_ += FloatRepr(value.number());
        return absl::OkStatus();
      case Kind::kString: {
        std::string shown;
        jinja::AppendRepr(value.text(), shown);
        return Add(value.safe() ? absl::StrCat("Markup(", shown, ")") : shown);
      }
      case Kind::kSequence:
        return ReprSequence(value.sequence());
      case Kind::kDict:
        return ReprDict(value.dict());
      case Kind::kNamespace: {
        if (++namespaces_ > kMaxShownNamespaces) return Failure("a namespace that holds itself");
        JINJA_RETURN_IF_ERROR(Add("<Namespace "));
        JINJA_RETURN_IF_ERROR(ReprDict(value.space().attributes));
        --namespaces_;
        return Add(">");
      }
      case Kind::kLoop:
        return Add(absl::StrCat("<LoopContext ", value.loop().index + 1, "/",
                                value.loop().items->items.size(), ">"));
      case Kind::kMacro:
        return Add(absl::StrCat("<Macro '", value.macro()->definition->name, "'>"));
      case Kind::kMethod:
        return Add(absl::StrCat("<built-in method ", value.method().name, ">"));
      case Kind::kFunction:
        return Add(absl::StrCat("<function ", std::string(value.function().name), ">"));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Add(std::string_view text) {
    JINJA_RETURN_IF_ERROR(budget_.Text(static_cast<std::int64_t>(text.size())));
    // Only a new text may be this long, so the bound is kept while it grows.
    if (out_.size() + text.size() > static_cast<std::size_t>(budget_.limits().max_text_bytes)) {
      return budget_.Text(budget_.limits().max_text_bytes + 1);
    }
    out_ += text;
    return absl::OkStatus();
  }

  absl::Status ReprItems(const Sequence& sequence, std::string_view open, std::string_view close) {
    JINJA_RETURN_IF_ERROR(Add(open));
    bool first = true;
    for (const Value& item : sequence.items) {
      if (!first) JINJA_RETURN_IF_ERROR(Add(", "));
      first = false;
      JINJA_RETURN_IF_ERROR(Repr(item));
    }
    return Add(close);
  }

  absl::Status ReprSequence(const Sequence& sequence) {
    switch (sequence.kind) {
      case SequenceKind::kList:
        return ReprItems(sequence, "[", "]");
      case SequenceKind::kTuple:
        return ReprItems(sequence, "(", sequence.items.size() == 1 ? ",)" : ")");
      case SequenceKind::kKeys:
        return ReprItems(sequence, "dict_keys([", "])");
      case SequenceKind::kValues:
        return ReprItems(sequence, "dict_values([", "])");
      case SequenceKind::kItems:
        return ReprItems(sequence, "dict_items([", "])");
      case SequenceKind::kRange:
        return Add(
            sequence.range.step == 1
                ? absl::StrCat("range(", sequence.range.start, ", ", sequence.range.stop, ")")
                : absl::StrCat("range(", sequence.range.start, ", ", sequence.range.stop, ", ",
                               sequence.range.step, ")"));
      case SequenceKind::kIterator:
        return Add("<generator object>");
    }
    return absl::OkStatus();
  }

  absl::Status ReprDict(const Dict& dict) {
    JINJA_RETURN_IF_ERROR(Add("{"));
    bool first = true;
    for (const auto& [key, value] : dict.entries()) {
      if (!first) JINJA_RETURN_IF_ERROR(Add(", "));
      first = false;
      JINJA_RETURN_IF_ERROR(Repr(key));
      JINJA_RETURN_IF_ERROR(Add(": "));
      JINJA_RETURN_IF_ERROR(Repr(value));
    }
    return Add("}");
  }

  Budget& budget_;
  std::string& out_;
  int namespaces_ = 0;
};

}  // namespace

absl::Status AppendStr(Budget& budget, const Value& value, std::string& out) {
  if (value.is_undefined()) return absl::OkStatus();
  if (!value.is_string()) return Printer(budget, out).Repr(value);
  JINJA_RETURN_IF_ERROR(budget.Text(static_cast<std::int64_t>(out.size() + value.text().size())));
  out += value.text();
  return absl::OkStatus();
}

absl::Status AppendRepr(Budget& budget, const Value& value, std::string& out) {
  return Printer(budget, out).Repr(value);
}

}  // namespace thresher::jinja
