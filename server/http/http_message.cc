#include "server/http/http_message.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/http/json_text.h"
#include "server/http/openai_response.h"
#include "server/requests/request_mapping.h"
#include "server/requests/wire_error.h"

namespace thresher {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The path and query of an absolute-form target ("http://host:port/path"), which proxies send and
// every server must take (RFC 9112, 3.2.2). Other targets are left as they are.
std::string_view WithoutOrigin(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (target.size() < scheme.size() ||
        !absl::EqualsIgnoreCase(std::string(target.substr(0, scheme.size())),
                                std::string(scheme))) {
      continue;
    }
    target.remove_prefix(scheme.size());
    target.remove_prefix(std::min(target.find_first_of("/?#"), target.size()));
    return target.starts_with('/') ? target : std::string_view("/");
  }
  return target;
}

}  // namespace

HttpReply ErrorReply(const absl::Status& status) {
  const WireErrorFields fields = DescribeError(status);
  HttpReply reply;
  reply.status = fields.http_status;
  reply.body = ErrorBody(status);
  if (fields.retry_after_seconds > 0) {
    reply.headers.emplace_back("retry-after", absl::StrCat(fields.retry_after_seconds));
  }
  if (fields.deterministic) reply.headers.emplace_back("x-should-retry", "false");
  if (fields.http_status == 401) reply.headers.emplace_back("www-authenticate", "Bearer");
  return reply;
}

HttpReply ErrorReply(int http_status, std::string_view code, std::string_view message) {
  HttpReply reply = ErrorReply(WireError(absl::StatusCode::kInvalidArgument, code, "", message));
  reply.status = http_status;
  return reply;
}

bool DecodePath(std::string_view target, std::string& path) {
  target = WithoutOrigin(target);
  target = target.substr(0, target.find_first_of("?#"));
  path.clear();
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] != '%') {
      path += target[i];
      continue;
    }
    if (i + 2 >= target.size()) return false;
    const int high = HexDigit(target[i + 1]), low = HexDigit(target[i + 2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0)) return false;
    path += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return true;
}

std::string RequestIdFrom(std::string_view header) {
  constexpr std::size_t kMost = 300;
  bool usable = !header.empty() && header.size() <= kMost;
  for (char c : header) usable = usable && c > 0x20 && c < 0x7f;
  return usable ? std::string(header) : MakeRequestId("req-");
}

}  // namespace thresher
