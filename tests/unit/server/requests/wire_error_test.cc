#include "server/requests/wire_error.h"

#include <gtest/gtest.h>

#include "engine/request_error.h"
#include "server/http/http_message.h"

namespace thresher {
namespace {

std::string HeaderOf(const HttpReply& reply, const std::string& name) {
  for (const auto& [header, value] : reply.headers) {
    if (header == name) return value;
  }
  return "";
}

TEST(WireErrorTest, EachCodeHasItsStatusAndHeaders) {
  const struct {
    absl::Status status;
    int http_status;
    const char* type;
    bool retry_after, deterministic;
  } cases[] = {
      {absl::InvalidArgumentError("x"), 400, "invalid_request_error", false, true},
      {absl::OutOfRangeError("x"), 400, "invalid_request_error", false, true},
      {absl::UnauthenticatedError("x"), 401, "authentication_error", false, true},
      {absl::NotFoundError("x"), 404, "not_found_error", false, true},
      {absl::ResourceExhaustedError("x"), 429, "rate_limit_error", true, false},
      {absl::InternalError("x"), 500, "server_error", false, false},
      {absl::UnavailableError("x"), 503, "unavailable_error", true, false},
      {absl::DeadlineExceededError("x"), 504, "timeout_error", false, false},
  };
  for (const auto& row : cases) {
    EXPECT_EQ(DescribeError(row.status).type, row.type);
    const HttpReply reply = ErrorReply(row.status);
    EXPECT_EQ(reply.status, row.http_status);
    EXPECT_EQ(!HeaderOf(reply, "retry-after").empty(), row.retry_after) << row.status;
    EXPECT_EQ(HeaderOf(reply, "x-should-retry") == "false", row.deterministic) << row.status;
  }
}

TEST(WireErrorTest, EngineErrorsKeepTheirFieldUnderTheWiresName) {
  const absl::Status engine = FieldError("logprobs", "is 21; it must be from 0 to 20");
  EXPECT_EQ(DescribeError(engine).param, "logprobs");
  const absl::Status renamed = RenameField(engine, "logprobs", "top_logprobs");
  EXPECT_EQ(DescribeError(renamed).param, "top_logprobs");
  EXPECT_EQ(renamed.message(), "top_logprobs is 21; it must be from 0 to 20");
  EXPECT_EQ(RenameField(engine, "max_tokens", "x"), engine);
  const absl::Status length = ContextLengthError("max_tokens", "is 9");
  EXPECT_EQ(DescribeError(RenameField(length, "max_tokens", "max_completion_tokens")).code,
            "context_length_exceeded");
  EXPECT_TRUE(RenameField(absl::OkStatus(), "a", "b").ok());
}

TEST(WireErrorTest, PathsAreDecodedOnce) {
  std::string path;
  EXPECT_TRUE(DecodePath("/v1/models/a%2Fb?x=%00#f", path));
  EXPECT_EQ(path, "/v1/models/a/b");
  for (const char* bad : {"/%", "/%2", "/%zz", "/%00"}) EXPECT_FALSE(DecodePath(bad, path)) << bad;
}

}  // namespace
}  // namespace thresher
