#include "server/http/logprobs_writer.h"

#include "engine/text/utf8.h"
#include "server/http/json_text.h"

namespace thresher {
namespace {

// Unlike text, token names must tell apart the pieces of one code point.
std::string TokenName(std::string_view bytes) {
  if (IsUtf8(bytes)) return std::string(bytes);
  constexpr char kHex[] = "0123456789abcdef";
  std::string name = "bytes:";
  for (unsigned char byte : bytes) {
    name += "\\x";
    name += kHex[byte >> 4];
    name += kHex[byte & 15];
  }
  return name;
}

void AppendName(TokenId id, const Tokenizer& tokenizer, std::string& out) {
  AppendJsonString(TokenName(tokenizer.TokenBytes(id)), out);
}

void AppendBytes(std::string_view bytes, std::string& out) {
  out += '[';
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    AppendJsonInteger(static_cast<unsigned char>(bytes[i]), out);
  }
  out += ']';
}

// Calls `append(record)` for both lists, with commas between.
template <typename Append>
void AppendList(std::span<const TokenRecord> first, std::span<const TokenRecord> second,
                std::string& out, const Append& append) {
  out += '[';
  bool comma = false;
  for (std::span<const TokenRecord> records : {first, second}) {
    for (const TokenRecord& record : records) {
      if (comma) out += ',';
      comma = true;
      append(record);
    }
  }
  out += ']';
}

// The alternatives as a map, the token itself included. Two tokens can have one name (a special
// token and its plain text); the more likely keeps it.
void AppendTopMap(const TokenRecord& record, const Tokenizer& tokenizer, std::string& out) {
  out += '{';
  std::vector<std::string> names;
  const auto add = [&](TokenId id, float logprob) {
    std::string name = TokenName(tokenizer.TokenBytes(id));
    for (const std::string& present : names) {
      if (present == name) return;
    }
    if (!names.empty()) out += ',';
    AppendJsonString(name, out);
    out += ':';
    AppendJsonNumber(logprob, out);
    names.push_back(std::move(name));
  };
  for (const auto& [id, logprob] : record.logprobs->top) add(id, logprob);
  add(record.token, record.logprobs->logprob);
  out += '}';
}

void AppendChatEntry(TokenId id, float logprob, const Tokenizer& tokenizer, std::string& out) {
  out += "{\"token\":";
  AppendName(id, tokenizer, out);
  out += ",\"logprob\":";
  AppendJsonNumber(logprob, out);
  out += ",\"bytes\":";
  AppendBytes(tokenizer.TokenBytes(id), out);
}

void AppendRanked(TokenId id, float logprob, int rank, const Tokenizer& tokenizer,
                  std::string& out) {
  out += '"';
  AppendJsonInteger(id, out);
  out += "\":{\"logprob\":";
  AppendJsonNumber(logprob, out);
  out += ",\"rank\":";
  AppendJsonInteger(rank, out);
  out += ",\"decoded_token\":";
  AppendName(id, tokenizer, out);
  out += '}';
}

}  // namespace

void AppendCompletionLogprobs(std::span<const TokenRecord> prompt,
                              std::span<const TokenRecord> generated, const Tokenizer& tokenizer,
                              std::string& out) {
  out += "{\"tokens\":";
  AppendList(prompt, generated, out,
             [&](const TokenRecord& record) { AppendName(record.token, tokenizer, out); });
  out += ",\"token_logprobs\":";
  AppendList(prompt, generated, out, [&](const TokenRecord& record) {
    if (record.logprobs.has_value()) {
      AppendJsonNumber(record.logprobs->logprob, out);
    } else {
      out += "null";
    }
  });
  out += ",\"top_logprobs\":";
  AppendList(prompt, generated, out, [&](const TokenRecord& record) {
    if (record.logprobs.has_value()) {
      AppendTopMap(record, tokenizer, out);
    } else {
      out += "null";
    }
  });
  out += ",\"text_offset\":";
  AppendList(prompt, generated, out,
             [&](const TokenRecord& record) { AppendJsonInteger(record.text_offset, out); });
  out += '}';
}

void AppendChatLogprobs(std::span<const TokenRecord> generated, const Tokenizer& tokenizer,
                        std::string& out) {
  out += "{\"content\":";
  AppendList({}, generated, out, [&](const TokenRecord& record) {
    const TokenLogprobs none;
    const TokenLogprobs& logprobs = record.logprobs.has_value() ? *record.logprobs : none;
    AppendChatEntry(record.token, logprobs.logprob, tokenizer, out);
    out += ",\"top_logprobs\":[";
    for (std::size_t i = 0; i < logprobs.top.size(); ++i) {
      if (i > 0) out += ',';
      AppendChatEntry(logprobs.top[i].first, logprobs.top[i].second, tokenizer, out);
      out += '}';
    }
    out += "]}";
  });
  out += ",\"refusal\":null}";
}

void AppendPromptLogprobs(std::span<const TokenRecord> prompt, const Tokenizer& tokenizer,
                          std::string& out) {
  AppendList(prompt, {}, out, [&](const TokenRecord& record) {
    if (!record.logprobs.has_value()) {
      out += "null";
      return;
    }
    out += '{';
    bool own = false;
    int rank = 0;
    for (const auto& [id, logprob] : record.logprobs->top) {
      if (rank > 0) out += ',';
      AppendRanked(id, logprob, ++rank, tokenizer, out);
      own = own || id == record.token;
    }
    if (!own) {
      if (rank > 0) out += ',';
      AppendRanked(record.token, record.logprobs->logprob, record.logprobs->rank, tokenizer, out);
    }
    out += '}';
  });
}

void AppendTokenIds(std::span<const TokenRecord> tokens, std::string& out) {
  AppendList(tokens, {}, out,
             [&](const TokenRecord& record) { AppendJsonInteger(record.token, out); });
}

void AppendTokenIds(std::span<const TokenId> tokens, std::string& out) {
  out += '[';
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    AppendJsonInteger(tokens[i], out);
  }
  out += ']';
}

}  // namespace thresher
