// Streams cut in every way against the definition.
#include "engine/text/stop_strings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace thresher {
namespace {

struct Outcome {
  std::string shown;
  std::optional<int> stop;
  bool operator==(const Outcome&) const = default;
};

// Cuts the text into pieces of `step` bytes.
Outcome Match(const std::vector<std::string>& stops, bool include, const std::string& text,
              std::size_t step) {
  StopStringMatcher matcher(stops, include);
  Outcome outcome;
  for (std::size_t at = 0; at < text.size() && !outcome.stop.has_value(); at += step) {
    outcome.stop = matcher.Append(std::string_view(text).substr(at, step), outcome.shown);
  }
  matcher.Finish(outcome.shown);
  return outcome;
}

// By definition: the stop string that ends first, the longest of those that end there.
Outcome Reference(const std::vector<std::string>& stops, bool include, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    const std::string_view prefix = std::string_view(text).substr(0, end);
    int best = -1;
    for (std::size_t i = 0; i < stops.size(); ++i) {
      if (!prefix.ends_with(stops[i])) continue;
      if (best < 0 || stops[i].size() > stops[best].size()) best = static_cast<int>(i);
    }
    if (best >= 0) {
      return {text.substr(0, include ? end : end - stops[best].size()), best};
    }
  }
  return {text, std::nullopt};
}

std::string ShownSoFar(StopStringMatcher& matcher, std::string_view text) {
  std::string out;
  EXPECT_EQ(matcher.Append(text, out), std::nullopt);
  return out;
}

TEST(StopStringMatcherTest, HoldsBackOnlyWhatMayBeginAStop) {
  StopStringMatcher matcher({"STOP", "O!"}, false);
  EXPECT_EQ(ShownSoFar(matcher, "abc"), "abc");
  EXPECT_EQ(ShownSoFar(matcher, "S"), "");
  EXPECT_EQ(ShownSoFar(matcher, "T"), "");
  EXPECT_EQ(ShownSoFar(matcher, "x"), "STx");
  EXPECT_EQ(ShownSoFar(matcher, "STO"), "");
  std::string out;
  EXPECT_EQ(matcher.Append("!rest", out), 1);
  EXPECT_EQ(out, "ST");
  EXPECT_EQ(matcher.Append("more", out), std::nullopt);
  matcher.Finish(out);
  EXPECT_EQ(out, "ST");
}

TEST(StopStringMatcherTest, FinishShowsWhatWasHeldBack) {
  StopStringMatcher matcher({"abcdefgh"}, false);
  std::string out;
  EXPECT_EQ(matcher.Append("xxabcdefg", out), std::nullopt);
  EXPECT_EQ(out, "xx");
  matcher.Finish(out);
  EXPECT_EQ(out, "xxabcdefg");
}

TEST(StopStringMatcherTest, IncludesTheStopIfAsked) {
  EXPECT_EQ(Match({"\n\n"}, true, "a\n\nb", 1), (Outcome{"a\n\n", 0}));
  EXPECT_EQ(Match({"\n\n"}, false, "a\n\nb", 1), (Outcome{"a", 0}));
}

TEST(StopStringMatcherTest, TheFirstToBeCompleteWinsThenTheLongest) {
  EXPECT_EQ(Match({"abcd", "bc"}, false, "xabcd", 99), (Outcome{"xa", 1}));
  EXPECT_EQ(Match({"cd", "abcd"}, false, "xabcd", 99), (Outcome{"x", 1}));
  EXPECT_EQ(Match({"ab", "ab"}, false, "ab", 1), (Outcome{"", 0}));
}

TEST(StopStringMatcherTest, NoStopsShowsEverythingAtOnce) {
  StopStringMatcher matcher({}, false);
  EXPECT_EQ(ShownSoFar(matcher, "text"), "text");
}

TEST(StopStringMatcherTest, EqualsTheDefinitionHoweverTheTextIsCut) {
  const std::vector<std::vector<std::string>> stop_sets = {
      {"a"},
      {"aab"},
      {"ab", "ba"},
      {"abab", "bb", "aabb"},
      {"aaaa"},
      {"aaab", "aab"},
      {"b", "ab", "bab"},
      {"abc", "bcab", "ca"},
      {"\xC3\xA9"
       "a"},
      {"ab", "ab"},
      {"cccccccc", "cccb"},
  };
  std::uint32_t state = 1;
  for (int round = 0; round < 400; ++round) {
    std::string text;
    for (int i = 0; i < 30; ++i) {
      state = state * 1664525 + 1013904223;
      text.push_back(static_cast<char>('a' + (state >> 24) % (2 + round % 2)));
    }
    for (const auto& stops : stop_sets) {
      for (const bool include : {false, true}) {
        const Outcome expected = Reference(stops, include, text);
        for (const std::size_t step : {1, 2, 3, 7, 30}) {
          ASSERT_EQ(Match(stops, include, text, step).shown, expected.shown) << text;
          ASSERT_EQ(Match(stops, include, text, step).stop, expected.stop) << text;
        }
      }
    }
  }
}

// A stop of n letters against a text that comes close to it everywhere: naive matching takes n
// steps a letter, 10^11 in all, and re-examining the held text on every call as many.
TEST(StopStringMatcherTest, HostileStopsAndTextsTakeLinearTime) {
  const std::string stop = std::string(100000, 'a') + "b";
  StopStringMatcher matcher({stop, "c" + stop}, false);
  std::string out;
  for (int i = 0; i < 1000000; ++i) ASSERT_EQ(matcher.Append("a", out), std::nullopt);
  EXPECT_EQ(out.size(), 900000u);
  EXPECT_EQ(matcher.Append("b", out), 0);
  EXPECT_EQ(out.size(), 900000u);
}

}  // namespace
}  // namespace thresher
