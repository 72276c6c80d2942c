#include "server/http/http_job.h"

#include <utility>

#include "server/out_of_memory.h"

namespace thresher {
namespace {

void Answer(const Route& route, ServerContext& context, WakeRegistry& wakes, std::uint64_t tag,
            HttpJob& job) {
  if (route.kind == RouteKind::kWorker) {
    job.reply = route.answer(job.request, context);
    return;
  }
  absl::StatusOr<std::unique_ptr<CompletionExchange>> exchange =
      CompletionExchange::Start(route.chat, job.request, std::move(job.grant), context, wakes, tag);
  if (exchange.ok()) {
    job.exchange = *std::move(exchange);
  } else {
    job.reply = ErrorReply(exchange.status());
  }
}

}  // namespace

void RunHttpJob(const Route& route, ServerContext& context, WakeRegistry& wakes, std::uint64_t tag,
                HttpJob& job) {
  if (!job.abandoned.load(std::memory_order_relaxed)) {
    const absl::Status memory = WithinMemory([&] { Answer(route, context, wakes, tag, job); });
    if (!memory.ok()) {
      job.exchange.reset();
      job.reply = ErrorReply(memory);
    }
  }
  // The answer may take minutes; the body is not kept for it.
  job.request.body = std::string();
  job.body_bytes.Release();
}

}  // namespace thresher
