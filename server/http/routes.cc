#include "server/http/routes.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/text/excerpt.h"
#include "server/http/http_head.h"
#include "server/http/json_text.h"
#include "server/http/model_routes.h"
#include "server/http/token_routes.h"

namespace thresher {
namespace {

constexpr char kVersion[] = "0.1.0";

HttpReply StatusReply(int status, const std::string& word, const std::string& detail) {
  HttpReply reply;
  reply.status = status;
  reply.body = "{\"status\":";
  AppendJsonString(word, reply.body);
  if (!detail.empty()) {
    reply.body += ",\"detail\":";
    AppendJsonString(detail, reply.body);
  }
  reply.body += '}';
  if (status == 503) reply.headers.emplace_back("retry-after", "5");
  return reply;
}

HttpReply Live(const HttpRequest&, ServerContext& context) {
  const absl::Status live = context.state.Liveness(absl::Now());
  if (live.ok()) return StatusReply(200, "ok", "");
  return StatusReply(503, "stalled", std::string(live.message()));
}

HttpReply Ready(const HttpRequest&, ServerContext& context) {
  const std::string readiness = context.state.Readiness();
  return StatusReply(readiness == "ok" ? 200 : 503, readiness, "");
}

HttpReply Health(const HttpRequest& request, ServerContext& context) {
  HttpReply live = Live(request, context);
  return live.status == 200 ? Ready(request, context) : live;
}

HttpReply Metrics(const HttpRequest&, ServerContext& context) {
  HttpReply reply;
  reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
  reply.body = context.metrics.Text();
  return reply;
}

HttpReply Version(const HttpRequest&, ServerContext&) {
  HttpReply reply;
  reply.body = absl::StrCat("{\"version\":\"", kVersion, "\"}");
  return reply;
}

struct Row {
  std::string_view path;
  Route route;
};

constexpr char kGet[] = "GET, HEAD, OPTIONS";
constexpr char kPost[] = "POST, OPTIONS";

const Row kRoutes[] = {
    {"/v1/completions", {RouteKind::kGenerate, kPost, true, false, nullptr}},
    {"/v1/chat/completions", {RouteKind::kGenerate, kPost, true, true, nullptr}},
    {"/v1/models", {RouteKind::kInline, kGet, true, false, AnswerModels}},
    {"/v1/attention/policies", {RouteKind::kInline, kGet, true, false, AnswerPolicies}},
    {"/tokenize", {RouteKind::kWorker, kPost, true, false, AnswerTokenize}},
    {"/detokenize", {RouteKind::kWorker, kPost, true, false, AnswerDetokenize}},
    {"/livez", {RouteKind::kInline, kGet, false, false, Live}},
    {"/readyz", {RouteKind::kInline, kGet, false, false, Ready}},
    {"/health", {RouteKind::kInline, kGet, false, false, Health}},
    {"/metrics", {RouteKind::kInline, kGet, false, false, Metrics}},
    {"/version", {RouteKind::kInline, kGet, false, false, Version}},
};

const Route kModelRoute = {RouteKind::kInline, kGet, true, false, AnswerModel};
const Route kNoRoute = {};

}  // namespace

const Route& FindRoute(std::string_view path) {
  for (const Row& row : kRoutes) {
    if (row.path == path) return row.route;
  }
  // A model's id may hold slashes.
  if (path.size() > kModelPathPrefix.size() && path.starts_with(kModelPathPrefix)) {
    return kModelRoute;
  }
  return kNoRoute;
}

bool RouteAllows(const Route& route, std::string_view method) {
  if (method == "POST") return route.methods == kPost;
  if (method == "GET" || method == "HEAD") return route.methods == kGet;
  return method == "OPTIONS";
}

std::optional<HttpReply> AnswerBeforeBody(const Route& route, const HttpRequest& request,
                                          ServerContext& context, KeyGrant& grant) {
  if (route.kind == RouteKind::kNone) {
    return ErrorReply(
        absl::NotFoundError(absl::StrCat("there is no route ", Excerpt(request.path))));
  }
  if (request.method == "OPTIONS") {
    return OptionsReply(route.methods, context.config.cors_allow_origin);
  }
  if (!RouteAllows(route, request.method)) {
    HttpReply reply =
        ErrorReply(405, "method_not_allowed",
                   absl::StrCat(request.path, " does not take ", Excerpt(request.method)));
    reply.headers.emplace_back("allow", route.methods);
    return reply;
  }
  if (!route.needs_key) return std::nullopt;
  absl::StatusOr<KeyGrant> checked = context.keys.Check(request.authorization);
  if (!checked.ok()) return ErrorReply(checked.status());
  grant = *std::move(checked);
  return std::nullopt;
}

}  // namespace thresher
