// No text makes a tokenizer slow: time grows about as the text does, whatever it repeats.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/text/tokenizer.h"
#include "tests/support/golden_path.h"
#include "tests/support/hard_strings.h"

namespace thresher {
namespace {

using ::thresher::testing::ReadTokenizerGolden;

const char* const kGoldenDir = testing::GoldenDir();

std::string Repeated(const std::string& unit, std::size_t num_bytes) {
  std::string text;
  while (text.size() < num_bytes) text += unit;
  return text;
}

// What has hung tokenizers: long runs of one thing, text without spaces, near misses of added
// tokens, marks in the worst order for a sort by exchange.
std::vector<std::string> HostileUnits() {
  return {"a",
          "_",
          " ",
          "\n",
          "\r\n \t",
          "7",
          "!",
          "\xE4\xB8\xAD",
          "\xC2\xA0",
          "ab",
          "aA",
          "'",
          "{\"a\":[1,2],\"b\":{}},",
          "<|im_start",
          "<|im_start|>",
          " <t> ",
          "\xE2\x96\x81",
          "two words",
          "a\xCC\x81\xCC\xA7",
          "\xCC\x81\xCC\xA7",
          "\xF0\x9F\x91\xA8\xE2\x80\x8D"};
}

// Other processes do not count.
double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double EncodeSeconds(const Tokenizer& tokenizer, const std::string& text, int num_runs) {
  double best = 1e9;
  for (int run = 0; run < num_runs; ++run) {
    std::vector<TokenId> ids;
    const double begin = ThreadSeconds();
    const absl::Status status = tokenizer.Encode(text, {}, ids);
    best = std::min(best, ThreadSeconds() - begin);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_FALSE(ids.empty());
  }
  return best;
}

class TokenizerCostTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Tokenizer> Load() const {
    const std::string bytes = ReadTokenizerGolden(kGoldenDir, GetParam());
    absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
        GetParam().ends_with(".json") ? TokenizerFromJson(bytes, "")
                                      : TokenizerFromSentencePiece(bytes, "");
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
  }
};

// Four times the text takes about 4.5 times as long at n log n and 16 times if quadratic. The
// smaller of two runs is compared, and less than 2 ms counts as 2 ms: a clock tick is no trend. A
// quadratic merge of 64,000 symbols takes seconds.
TEST_P(TokenizerCostTest, FourTimesTheTextTakesNoSixteenTimes) {
  const std::unique_ptr<Tokenizer> tokenizer = Load();
  ASSERT_NE(tokenizer, nullptr);
  constexpr std::size_t kBytes = 16000;
  for (const std::string& unit : HostileUnits()) {
    const double small = EncodeSeconds(*tokenizer, Repeated(unit, kBytes), 2);
    const double large = EncodeSeconds(*tokenizer, Repeated(unit, 4 * kBytes), 2);
    EXPECT_LT(large, 9 * std::max(small, 0.002)) << ::testing::PrintToString(unit);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerCostTest,
                         ::testing::Values("llama3.json", "flags.json", "llama2.json",
                                           "metaspace.json", "sentencepiece_fallback.model"),
                         [](const auto& info) {
                           return info.param.substr(0, info.param.find('.'));
                         });

}  // namespace
}  // namespace thresher
