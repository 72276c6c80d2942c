#include "server/http/json_reader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace thresher {
namespace {

std::string ErrorOf(const std::string& text) {
  const auto parsed = ParseJsonObject(text, 64);
  if (parsed.ok()) return "";
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(parsed.status().message());
}

TEST(JsonReaderTest, BuildsWhatTheLibraryBuilds) {
  const std::string text =
      R"({"z":1,"a":[1,-2,3.5,true,null,"x\u00e9\ud83d\ude00"],"b":{"c":{},"d":[]},"e":18446744073709551615})";
  const auto parsed = ParseJson(text, 64);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  // The order of keys is kept too.
  EXPECT_EQ(parsed->dump(), nlohmann::ordered_json::parse(text).dump());
}

TEST(JsonReaderTest, RefusesWhatIsNotJson) {
  const std::string cases[] = {
      "",
      "{",
      "[]",
      "null",
      "{\"a\":1}x",
      "{\"a\":NaN}",
      "{\"a\":1e999}",
      "{\"a\":\"\xC4\xE3\"}",
      "{\"a\":\"\xC0\xAF\"}",
      "{\"a\":\"\xFF\"}",
      R"({"a":"a\ud83d"})",
      R"({"a":"\ude00 b"})",
      R"({"a":"\udcf0"})",
      "{\"a\":\"\n\"}",
      std::string("{\"a\":\"\0\"}", 9),
      R"({"a":1,"a":2})",
      R"({"b":{"a":1,"c":0,"a":2}})",
  };
  for (const std::string& text : cases) EXPECT_NE(ErrorOf(text), "") << text;
  EXPECT_NE(ErrorOf(R"({"temperature":1,"temperature":2})").find("'temperature' is given twice"),
            std::string::npos);
}

TEST(JsonReaderTest, DepthIsBounded) {
  for (const int depth : {3000, 100000, 1000000}) {
    const std::string text =
        "{\"tools\":" + std::string(depth, '[') + std::string(depth, ']') + "}";
    EXPECT_NE(ErrorOf(text).find("nested deeper than 64"), std::string::npos);
  }
  EXPECT_EQ(ErrorOf("{\"a\":" + std::string(63, '[') + std::string(63, ']') + "}"), "");
}

TEST(JsonReaderTest, ManyKeysTakeLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 100000; ++i) text += (i ? ",\"" : "\"") + std::to_string(i) + "\":1";
  text += "}";
  // A search of the keys before each insertion would take minutes.
  EXPECT_EQ(ErrorOf(text), "");
}

TEST(JsonReaderTest, MessagesSayWhatIsWrongInFewWords) {
  const std::string huge(100000, 'q');
  const struct {
    std::string text;
    std::string message;
  } rows[] = {
      {"{\"a\":1e999}", "the body is not valid JSON at byte 10: a number is out of range"},
      {"{\"a\":NaN}", "the body is not valid JSON at byte 6: invalid literal"},
      {"{\"a\":" + huge + "}", "the body is not valid JSON at byte 6: invalid literal"},
      {"{\"a\" 1}",
       "the body is not valid JSON at byte 6: unexpected number literal; expected ':'"},
  };
  for (const auto& row : rows) EXPECT_EQ(ErrorOf(row.text), row.message);
  for (const std::string& text : {std::string("{\"a\":\"" + huge), "{\"" + huge + "\n\":1}",
                                  "{\"a\":\"" + huge + "\xFF\"}", std::string("")}) {
    const std::string error = ErrorOf(text);
    EXPECT_EQ(error.find("json"), std::string::npos) << error;
    EXPECT_EQ(error.find("qqq"), std::string::npos) << error;
    EXPECT_LT(error.size(), 200u);
  }
}

TEST(JsonReaderTest, MessagesAreUtf8) {
  const std::string error = ErrorOf("{\"a\":\"\xFF\"}");
  EXPECT_TRUE(nlohmann::json::accept("\"" + error + "\"")) << error;
}

}  // namespace
}  // namespace thresher
