// The routes: which paths there are, which methods they take, and the answers of all but the
// generating ones.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/http/http_message.h"
#include "server/server_context.h"

namespace thresher {

enum class RouteKind {
  kInline,    // answered at once, on the I/O thread
  kWorker,    // answered on a worker: it may tokenise
  kGenerate,  // a CompletionExchange
  kNone,      // no such path
};

struct Route {
  RouteKind kind = RouteKind::kNone;
  const char* methods = "";  // for Allow: "GET, HEAD"
  bool needs_key = false;
  bool chat = false;  // kGenerate: which of the two
  HttpReply (*answer)(const HttpRequest&, ServerContext&) = nullptr;
};

// `path` as decoded.
const Route& FindRoute(std::string_view path);
// True if the route takes the method; HEAD counts as GET.
bool RouteAllows(const Route& route, std::string_view method);

// What can be said before the body is read: no such route or method, OPTIONS, no key. Otherwise
// nothing, and `grant` is what the key allows.
std::optional<HttpReply> AnswerBeforeBody(const Route& route, const HttpRequest& request,
                                          ServerContext& context, KeyGrant& grant);

}  // namespace thresher
