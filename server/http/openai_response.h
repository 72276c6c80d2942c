// The answers of the two OpenAI routes, as one body or as events of a stream.
#pragma once

#include <string>
#include <vector>

#include "engine/text/tokenizer.h"
#include "server/requests/completion_stream.h"

namespace thresher {

struct AnswerFormat {
  bool chat = false;
  std::string id;
  std::string model;
  std::int64_t created = 0;       // unix seconds
  bool include_usage = false;     // streams: a usage chunk at the end
  bool continuous_usage = false;  // streams: usage on every chunk
};

// Writes the events of a stream. What is the same in every event is prepared once, so that a token
// costs a few appends. One thread at a time; the tokenizer and the request outlive it.
class EventWriter final {
 public:
  EventWriter(const AnswerFormat& format, const MappedRequest& request, const Tokenizer& tokenizer);

  // Appends the events of one choice's news; none if it shows nothing (text that is held back).
  // `usage` is read only with continuous_usage.
  void AppendUpdate(const ChoiceUpdate& update, const StreamUsage& usage, std::string& out) const;
  // Appends the usage event, if asked for, and the end of the stream.
  void AppendEnd(const StreamUsage& usage, std::string& out) const;

 private:
  void AppendTail(const StreamUsage& usage, std::string& out) const;

  const AnswerFormat format_;
  const MappedRequest& request_;
  const Tokenizer& tokenizer_;
  std::string prefix_;  // up to the choice's index
};

// Gathers a whole answer. One thread at a time; the tokenizer and the request outlive it.
class AnswerCollector final {
 public:
  AnswerCollector(const AnswerFormat& format, const MappedRequest& request,
                  const Tokenizer& tokenizer, int num_choices);

  void Add(const ChoiceUpdate& update);
  std::string Body(const StreamUsage& usage) const;

 private:
  void AppendChoice(const ChoiceUpdate& choice, std::string& out) const;

  const AnswerFormat format_;
  const MappedRequest& request_;
  const Tokenizer& tokenizer_;
  std::vector<ChoiceUpdate> choices_;
};

// data: {"error":…} and the end of the stream.
void AppendErrorEvent(const absl::Status& status, std::string& out);
// {"error":{"message","type","param","code"}}
std::string ErrorBody(const absl::Status& status);

}  // namespace thresher
