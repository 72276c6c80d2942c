// A request whose answer needs a worker, from its body to a reply or an exchange.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "server/http/completion_exchange.h"
#include "server/http/routes.h"
#include "server/http/wake_registry.h"
#include "server/quota.h"
#include "server/server_context.h"

namespace thresher {

// The I/O thread makes it and reads it once it is done; the worker has it between.
struct HttpJob {
  HttpJob(HttpRequest http_request, KeyGrant key_grant, Quota::Share bytes)
      : request(std::move(http_request)),
        grant(std::move(key_grant)),
        body_bytes(std::move(bytes)) {}

  HttpRequest request;  // its body is gone once it has been read
  KeyGrant grant;
  Quota::Share body_bytes;  // of the request's body
  std::unique_ptr<CompletionExchange> exchange;
  HttpReply reply;                     // in place of an exchange
  std::atomic<bool> abandoned{false};  // nobody waits for the answer; set by the I/O thread
  bool done = false;                   // I/O thread only
};

// On a worker. A job that nobody waits for is not begun. One that there is no memory for gets the
// reply 500.
void RunHttpJob(const Route& route, ServerContext& context, WakeRegistry& wakes, std::uint64_t tag,
                HttpJob& job);

}  // namespace thresher
