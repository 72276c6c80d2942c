// What is rewritten, what is refused, and that splitting finds what Oniguruma finds.
#include "engine/text/regex_dialect.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/text/split_pattern.h"

namespace thresher {
namespace {

std::vector<std::string> Matches(std::string_view regex, const std::string& text) {
  const auto pattern = SplitPattern::FromRegex(regex);
  EXPECT_TRUE(pattern.ok()) << pattern.status();
  if (!pattern.ok()) return {};
  const auto scanner = (*pattern)->NewScanner();
  scanner->Start(text);
  std::vector<std::string> matches;
  while (true) {
    const auto match = scanner->Next();
    EXPECT_TRUE(match.ok()) << match.status();
    if (!match.ok() || !match->has_value()) return matches;
    matches.push_back(text.substr((*match)->begin, (*match)->end - (*match)->begin));
  }
}

using Strings = std::vector<std::string>;

TEST(RegexDialectTest, WhiteSpaceIsUnicodesInsideAndOutsideClasses) {
  // U+180E is white space to PCRE2 and not to Unicode; U+0085 and U+3000 are.
  const std::string text = "\u180E\u0085\u3000x";
  EXPECT_EQ(Matches(R"(\s)", text), (Strings{"\u0085", "\u3000"}));
  EXPECT_EQ(Matches(R"([\s])", text), (Strings{"\u0085", "\u3000"}));
  EXPECT_EQ(Matches(R"([^\s])", text), (Strings{"\u180E", "x"}));
  EXPECT_EQ(Matches(R"(\S)", text), (Strings{"\u180E", "x"}));
  EXPECT_EQ(Matches(R"([\Sx])", text), (Strings{"\u180E", "x"}));
  EXPECT_EQ(Matches(R"([^\S])", text), (Strings{"\u0085", "\u3000"}));
}

TEST(RegexDialectTest, ReadsCodePointsPropertiesAndScripts) {
  EXPECT_EQ(Matches(R"(\x41|\u00e9|\x{1f600})", "A\u00E9\U0001F600"),
            (Strings{"A", "\u00E9", "\U0001F600"}));
  EXPECT_EQ(Matches(R"(\p{Lu}|\P{L}|\p{^L})", "aB1"), (Strings{"B", "1"}));
  // U+3001 has script Common and extension Han: Oniguruma's \p{Han} leaves it out.
  EXPECT_EQ(Matches(R"(\p{Han}+)", "\u4E2D\u3001\u4E2D"), (Strings{"\u4E2D", "\u4E2D"}));
  EXPECT_EQ(Matches(R"(\d)", "1\u0661\u00B2"), (Strings{"1", "\u0661"}));
  EXPECT_EQ(Matches(R"([\[\]\-\.]+)", "a[-].b"), (Strings{"[-]."}));
}

TEST(RegexDialectTest, AnchorsAreOfLines) {
  EXPECT_EQ(Matches(R"(^a|b$)", "a\nab\nb"), (Strings{"a", "a", "b", "b"}));
}

TEST(RegexDialectTest, EmptyMatchesMoveOn) {
  EXPECT_EQ(Matches(R"((?=b))", "ab\u4E2Db"), (Strings{"", ""}));
  EXPECT_EQ(Matches("x*", "ax\u4E2D"), (Strings{"", "x", ""}));
}

TEST(RegexDialectTest, RefusesWhatHasNoSureEquivalent) {
  for (const char* regex :
       {R"(\w)",          R"(\W)",           R"(\b)",          R"(\h)",     R"(\R)",
        R"(\X)",          R"(\v)",           R"(\1)",          R"(\A)",     R"(\z)",
        R"([[:alpha:]])", R"([a[bc]])",      R"([a-z&&[^b]])", R"((?m:a))", R"((?<n>a))",
        R"((*FAIL))",     R"(a{2}+)",        R"(a{,3})",       R"(a{)",     R"([])",
        R"(\p{})",        R"(\p{L&})",       R"(\pL)",         R"(\x80)",   R"(\x{110000000})",
        R"(\u12)",        R"(\p{Nonsense})", R"((?i)a)",       R"((a)",     R"(\)"}) {
    const auto pattern = SplitPattern::FromRegex(regex);
    ASSERT_FALSE(pattern.ok()) << regex;
    EXPECT_EQ(pattern.status().code(), absl::StatusCode::kUnimplemented) << pattern.status();
  }
  EXPECT_EQ(SplitPattern::FromRegex("[a").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SplitPattern::FromRegex("\xFF").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RegexDialectTest, APatternThatNeverEndsIsAnError) {
  const auto pattern = SplitPattern::FromRegex("(a|aa|aaa)+b|(a+)+c");
  ASSERT_TRUE(pattern.ok()) << pattern.status();
  const auto scanner = (*pattern)->NewScanner();
  const std::string text(60, 'a');
  scanner->Start(text);
  EXPECT_EQ(scanner->Next().status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace thresher
