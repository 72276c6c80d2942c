#include "server/bench/event_parser.h"

#include <gtest/gtest.h>

#include <vector>

namespace thresher {
namespace {

constexpr char kStream[] =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    "transfer-encoding: chunked\r\n\r\n"
    "b\r\ndata: {\"a\":\r\n"
    "10\r\n1}\n\n: ping\n\ndata\r\n"
    "e\r\n: {}\n\ndata: [D\r\n"
    "7\r\nONE]\n\nx\r\n0\r\n\r\n";

TEST(EventParserTest, TakesTheSameEventsHoweverTheBytesAreCut) {
  const std::string bytes = kStream;
  for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
    EventParser parser;
    std::vector<std::string> events;
    const auto take = [&](std::string_view event) { events.emplace_back(event); };
    bool complete = false;
    for (std::size_t i = 0; i < bytes.size(); i += cut) {
      EXPECT_FALSE(complete);
      complete = parser.Append(std::string_view(bytes).substr(i, cut), take);
    }
    EXPECT_TRUE(complete);
    EXPECT_EQ(parser.status(), 200);
    EXPECT_EQ(events, (std::vector<std::string>{"{\"a\":1}", "{}", "[DONE]"})) << cut;
  }
}

TEST(EventParserTest, KeepsTheBodyOfAnError) {
  EventParser parser;
  EXPECT_FALSE(parser.Append("HTTP/1.1 429 Too Many\r\ncontent-length: 5\r\n\r\nab",
                             [](std::string_view) { FAIL(); }));
  EXPECT_TRUE(parser.Append("cde", [](std::string_view) { FAIL(); }));
  EXPECT_EQ(parser.status(), 429);
  EXPECT_EQ(parser.body(), "abcde");
}

}  // namespace
}  // namespace thresher
