#include "server/http/json_unsupported.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

using Json = nlohmann::ordered_json;

struct UnsupportedField {
  const char* name;
  const char* neutral;  // JSON array of the values that ask for nothing
};

// What a generating route is asked for beside text, and what only a hosted service has.
constexpr UnsupportedField kInBoth[] = {
    {"audio", "[]"},
    {"chat_template", "[]"},
    {"function_call", R"(["none"])"},
    {"functions", "[[]]"},
    {"metadata", "[{}]"},
    {"modalities", R"([["text"]])"},
    {"moderation", "[]"},
    {"parallel_tool_calls", "[true]"},
    {"prediction", "[]"},
    {"prompt_cache_retention", R"(["in-memory","in_memory"])"},
    {"reasoning_effort", R"(["none"])"},
    {"response_format", R"([{"type":"text"}])"},
    {"service_tier", R"(["auto","default"])"},
    {"store", "[false]"},
    {"suffix", R"([""])"},
    {"tool_choice", R"(["none"])"},
    {"tools", "[[]]"},
    {"verbosity", R"(["medium"])"},
    {"web_search_options", "[]"},
};
constexpr UnsupportedField kInCompletions[] = {
    {"add_generation_prompt", "[true]"},
    {"chat_template_kwargs", "[{}]"},
    {"continue_final_message", "[false]"},
    {"max_completion_tokens", "[]"},
    {"messages", "[]"},
    {"top_logprobs", "[]"},
};
constexpr UnsupportedField kInChat[] = {{"prompt", "[]"}};
constexpr UnsupportedField kInTokenize[] = {{"chat_template", "[]"}, {"tools", "[[]]"}};

template <std::size_t N>
void Refuse(const UnsupportedField (&table)[N], JsonFields& fields) {
  for (const UnsupportedField& field : table) {
    const Json* value = fields.Find(field.name);
    if (value == nullptr) continue;
    const Json neutral = Json::parse(field.neutral);
    bool asks = true;
    for (const Json& none : neutral) asks = asks && *value != none;
    if (!asks) continue;
    fields.Fail(field.name, absl::StrCat(field.name, " is not supported here",
                                         neutral.empty() ? "" : "; it may be ",
                                         neutral.empty() ? "" : neutral.front().dump()));
  }
}

}  // namespace

void RefuseUnsupported(BodyKind kind, JsonFields& fields) {
  switch (kind) {
    case BodyKind::kCompletion:
      Refuse(kInBoth, fields);
      return Refuse(kInCompletions, fields);
    case BodyKind::kChat:
      Refuse(kInBoth, fields);
      return Refuse(kInChat, fields);
    case BodyKind::kTokenize:
      return Refuse(kInTokenize, fields);
  }
}

}  // namespace thresher
