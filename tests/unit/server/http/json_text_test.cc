#include "server/http/json_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/text/utf8.h"

namespace thresher {
namespace {

std::string Quoted(std::string_view text) {
  std::string out;
  AppendJsonString(text, out);
  return out;
}

TEST(JsonTextTest, EveryCodePointReadsBackAsItself) {
  std::string text;
  for (char32_t c = 0; c < 0x110000; c += c < 0x3000 ? 1 : 97) {
    if (c >= 0xD800 && c < 0xE000) continue;
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else if (c < 0x800) {
      text += static_cast<char>(0xC0 | c >> 6);
      text += static_cast<char>(0x80 | (c & 63));
    } else if (c < 0x10000) {
      text += static_cast<char>(0xE0 | c >> 12);
      text += static_cast<char>(0x80 | (c >> 6 & 63));
      text += static_cast<char>(0x80 | (c & 63));
    } else {
      text += static_cast<char>(0xF0 | c >> 18);
      text += static_cast<char>(0x80 | (c >> 12 & 63));
      text += static_cast<char>(0x80 | (c >> 6 & 63));
      text += static_cast<char>(0x80 | (c & 63));
    }
  }
  EXPECT_TRUE(IsUtf8(text));
  const nlohmann::json read = nlohmann::json::parse(Quoted(text), nullptr, false);
  ASSERT_TRUE(read.is_string());
  EXPECT_EQ(read.get<std::string>(), text);
}

TEST(JsonTextTest, BadBytesBecomeReplacementCharacters) {
  EXPECT_EQ(Quoted("a\xFF"
                   "b"),
            "\"a\xEF\xBF\xBD"
            "b\"");
  EXPECT_EQ(Quoted("\xE2\x82"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
  for (const char* bad : {"\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80",
                          "\xF8\x88\x80\x80\x80", "\xC2"}) {
    EXPECT_FALSE(IsUtf8(bad)) << bad;
    EXPECT_TRUE(IsUtf8(Quoted(bad)));
  }
}

TEST(JsonTextTest, NumbersAreFiniteAndReadBack) {
  for (const float value : {0.0f, -0.125f, -1e-30f, -17.3281f, 3.4e38f}) {
    std::string out;
    AppendJsonNumber(value, out);
    EXPECT_EQ(std::strtof(out.c_str(), nullptr), std::min(value, 9999.0f)) << out;
  }
  for (const float value : {-std::numeric_limits<float>::infinity(), std::nanf(""), -1e9f}) {
    std::string out;
    AppendJsonNumber(value, out);
    EXPECT_EQ(out, "-9999");
  }
}

}  // namespace
}  // namespace thresher
