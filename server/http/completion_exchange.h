// One generating request over HTTP, from its body to its answer; the connection only moves bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/http/http_message.h"
#include "server/http/json_request.h"
#include "server/http/openai_response.h"
#include "server/requests/completion_stream.h"
#include "server/server_context.h"

namespace thresher {

// One thread at a time. Destroying it cancels the request.
class CompletionExchange final {
 public:
  // Everything that can fail validation fails here. Tokenises: not for an I/O thread. `listener`
  // outlives the exchange and is told of `tag` when Advance has work.
  static absl::StatusOr<std::unique_ptr<CompletionExchange>> Start(
      bool chat, const HttpRequest& request, KeyGrant grant, ServerContext& context,
      StreamListener& listener, std::uint64_t tag);

  bool streams() const { return streams_; }
  // Takes what has come; with streams(), appends its events. True once the request has ended; the
  // last events then include the end of the stream.
  bool Advance(std::string& events);
  // Not streams(): the answer, once Advance returned true.
  HttpReply Answer() const;

 private:
  CompletionExchange(const HttpCompletionRequest& http, const AnswerFormat& format,
                     const Tokenizer& tokenizer, std::unique_ptr<CompletionStream> stream,
                     KeyGrant grant);

  const bool streams_;
  const bool continuous_usage_;
  KeyGrant grant_;
  std::unique_ptr<CompletionStream> stream_;
  EventWriter events_;
  AnswerCollector answer_;
  std::vector<ChoiceUpdate> updates_;
  absl::Status failure_;
};

}  // namespace thresher
