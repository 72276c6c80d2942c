#include "server/http/completion_exchange.h"

#include <utility>

namespace thresher {

absl::StatusOr<std::unique_ptr<CompletionExchange>> CompletionExchange::Start(
    bool chat, const HttpRequest& request, KeyGrant grant, ServerContext& context,
    StreamListener& listener, std::uint64_t tag) {
  const absl::StatusOr<const ServedModel*> model = context.state.Admit();
  if (!model.ok()) return model.status();
  const int max_depth = (*model)->limits.max_json_depth;
  absl::StatusOr<HttpCompletionRequest> http =
      chat ? ReadChatBody(request.body, max_depth) : ReadCompletionBody(request.body, max_depth);
  absl::Status refused = http.status();
  absl::StatusOr<MappedRequest> mapped = absl::UnknownError("not mapped");
  if (http.ok()) {
    http->request.header_level = request.attention_level;
    http->request.key_level = grant.level;
    mapped = MapRequest(std::move(http->request), **model, absl::Now());
    refused = mapped.status();
  }
  if (!refused.ok()) {
    context.metrics.CountRefused();
    return refused;
  }
  AnswerFormat format;
  format.chat = chat;
  format.id = mapped->request_id;
  format.model = (*model)->name;
  format.created = absl::ToUnixSeconds(absl::Now());
  format.include_usage = http->include_usage;
  format.continuous_usage = http->continuous_usage;
  absl::StatusOr<std::unique_ptr<CompletionStream>> stream =
      CompletionStream::Start((*model)->engine, *std::move(mapped), &listener, tag);
  if (!stream.ok()) return stream.status();
  return std::unique_ptr<CompletionExchange>(new CompletionExchange(
      *http, format, (*model)->engine.tokenizer(), *std::move(stream), std::move(grant)));
}

CompletionExchange::CompletionExchange(const HttpCompletionRequest& http,
                                       const AnswerFormat& format, const Tokenizer& tokenizer,
                                       std::unique_ptr<CompletionStream> stream, KeyGrant grant)
    : streams_(http.stream),
      continuous_usage_(http.continuous_usage),
      grant_(std::move(grant)),
      stream_(std::move(stream)),
      events_(format, stream_->request(), tokenizer),
      answer_(format, stream_->request(), tokenizer, stream_->num_choices()) {}

bool CompletionExchange::Advance(std::string& events) {
  const absl::StatusOr<bool> more = stream_->Poll(updates_);
  if (!more.ok()) {
    failure_ = more.status();
    if (streams_) AppendErrorEvent(failure_, events);
    return true;
  }
  StreamUsage usage;
  if (streams_ && (continuous_usage_ || !*more)) usage = stream_->usage();
  for (const ChoiceUpdate& update : updates_) {
    if (streams_) {
      events_.AppendUpdate(update, usage, events);
    } else {
      answer_.Add(update);
    }
  }
  if (streams_ && !*more) events_.AppendEnd(usage, events);
  return !*more;
}

HttpReply CompletionExchange::Answer() const {
  if (!failure_.ok()) return ErrorReply(failure_);
  HttpReply reply;
  reply.body = answer_.Body(stream_->usage());
  return reply;
}

}  // namespace thresher
