// Calibration of a tiny random model, end to end.
#include "engine/attention/calibrate/calibration.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "engine/attention/threshold_table.h"
#include "engine/model/scaled_model_files.h"
#include "gtest/gtest.h"
#include "tests/support/fakes/fake_tokenizer.h"
#include "tests/support/logits_golden.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_environment.h"

namespace thresher {
namespace {

using testing::GoldenPath;
using testing::TempFolder;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class CalibrationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto files = ModelFiles::Open(GoldenPath("models/llama_tied_f16"));
    ASSERT_TRUE(files.ok()) << files.status();
    files_ = *std::move(files);
    const int vocab = files_->config().vocab_size;
    std::uint32_t state = 1;
    for (int w = 0; w < 5; ++w) {
      TextWindow window;
      for (int i = 0; i < 96; ++i) {
        state = state * 1664525u + 1013904223u;
        window.tokens.push_back(static_cast<TokenId>((state >> 8) % vocab));
      }
      windows_.push_back(std::move(window));
    }
  }

  CalibrationOptions Options(const std::string& name) const {
    return {.output = folder_.path() + "/" + name,
            .rows_per_bucket = 5,
            .step_tokens = 40,
            .checkpoint = absl::ZeroDuration(),
            .backend = {.num_threads = 2, .max_isa = testing::TestMaxIsa()}};
  }

  TempFolder folder_;
  std::unique_ptr<ModelFiles> files_;
  std::vector<TextWindow> windows_;
};

TEST_F(CalibrationTest, MakesATableThatTheModelLoads) {
  std::vector<double> fractions;
  const auto report = Calibrate(*files_, windows_, Options("t.thr"), [&](const auto& progress) {
    fractions.push_back(progress.fraction);
    return true;
  });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->num_windows, 5);
  EXPECT_EQ(report->num_tokens, 5 * 96);
  EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()));
  EXPECT_EQ(fractions.front(), 0);
  EXPECT_EQ(fractions.back(), 1);
  for (const std::int64_t samples : report->table.samples) EXPECT_EQ(samples, 5 * 5);
  EXPECT_FALSE(std::filesystem::exists(Options("t.thr").output + ".state"));

  const auto fingerprint = FingerprintOf(*files_, files_->config(), DType::kF32);
  ASSERT_TRUE(fingerprint.ok());
  const auto table = ThresholdTable::Load(Options("t.thr").output, *fingerprint);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_TRUE((*table)->has_values());
  EXPECT_EQ((*table)->max_length(), 96);
  const auto values = (*table)->ValuesOf(0, 0, 1, (*table)->contents().head_dim);
  ASSERT_TRUE(values.ok());
  EXPECT_GT(*values->std, 0);
  EXPECT_GT(*values->centred_std, 0);
}

TEST_F(CalibrationTest, GoesOnWhereItStoppedWithTheSameBits) {
  ASSERT_TRUE(Calibrate(*files_, windows_, Options("whole.thr"), nullptr).ok());
  // Stops in the middle of a window and, the next time, at the start of one.
  int calls = 0;
  double resumed = 0;
  const auto stop_after = [&](int limit) {
    calls = 0;
    return [&, limit](const CalibrationProgress& progress) {
      resumed = progress.resumed_fraction;
      return ++calls < limit;
    };
  };
  const CalibrationOptions options = Options("parts.thr");
  auto report = Calibrate(*files_, windows_, options, stop_after(6));
  EXPECT_EQ(report.status().code(), absl::StatusCode::kCancelled);
  EXPECT_NE(std::string(report.status().message()).find("parts.thr.state"), std::string::npos);
  EXPECT_EQ(resumed, 0);
  report = Calibrate(*files_, windows_, options, stop_after(4));
  EXPECT_EQ(report.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(resumed, 2.0 / 5);
  report = Calibrate(*files_, windows_, options, stop_after(1));
  EXPECT_EQ(report.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(resumed, 3.0 / 5);
  report = Calibrate(*files_, windows_, options, nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(ReadAll(Options("whole.thr").output), ReadAll(options.output));
}

TEST_F(CalibrationTest, DoesNotTakeUpWhatIsNotItsOwn) {
  const CalibrationOptions options = Options("t.thr");
  const auto stop = [](const CalibrationProgress&) { return false; };
  ASSERT_EQ(Calibrate(*files_, windows_, options, stop).status().code(),
            absl::StatusCode::kCancelled);
  CalibrationOptions other = options;
  other.seed = 9;
  auto status = Calibrate(*files_, windows_, other, nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(status.message()).find("remove it"), std::string::npos) << status;
  std::string bytes = ReadAll(options.output + ".state");
  for (std::size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 50) {
    folder_.Write("t.thr.state", bytes.substr(0, size));
    status = Calibrate(*files_, windows_, options, nullptr).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << size;
  }
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  folder_.Write("t.thr.state", bytes);
  status = Calibrate(*files_, windows_, options, nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CalibrationTest, RefusesASecondCalibrationOfTheSameOutput) {
  const CalibrationOptions options = Options("t.thr");
  absl::Status second;
  bool another_ran = false;
  const auto first = Calibrate(*files_, windows_, options, [&](const CalibrationProgress&) {
    if (another_ran) return true;
    another_ran = true;
    second = Calibrate(*files_, windows_, options, nullptr).status();
    const auto elsewhere = Calibrate(*files_, windows_, Options("u.thr"), nullptr);
    EXPECT_TRUE(elsewhere.ok()) << elsewhere.status();
    return true;
  });
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(another_ran);
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(second.message()).find("t.thr: another calibration"), std::string::npos)
      << second;
  EXPECT_EQ(ReadAll(options.output), ReadAll(Options("u.thr").output));
  // The lock goes with its owner, and a file that is left over locks nobody out.
  EXPECT_FALSE(std::filesystem::exists(options.output + ".lock"));
  folder_.Write("t.thr.lock", "");
  EXPECT_TRUE(Calibrate(*files_, windows_, options, nullptr).ok());
}

TEST_F(CalibrationTest, SaysWhatIsWrongBeforeAnyWork) {
  int calls = 0;
  const auto code = [&](std::span<const TextWindow> windows, const CalibrationOptions& options) {
    return Calibrate(*files_, windows, options,
                     [&](const CalibrationProgress&) { return ++calls > 0; })
        .status()
        .code();
  };
  EXPECT_EQ(code({}, Options("t.thr")), absl::StatusCode::kInvalidArgument);
  std::vector<TextWindow> uneven = windows_;
  uneven[1].tokens.pop_back();
  EXPECT_EQ(code(uneven, Options("t.thr")), absl::StatusCode::kInvalidArgument);
  for (TextWindow& window : uneven) window.tokens.resize(63);
  EXPECT_EQ(code(uneven, Options("t.thr")), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(windows_, Options("none/t.thr")), absl::StatusCode::kNotFound);
  EXPECT_EQ(code(windows_, {.output = folder_.path()}), absl::StatusCode::kInvalidArgument);
  CalibrationOptions options = Options("t.thr");
  options.rows_per_bucket = 0;
  EXPECT_EQ(code(windows_, options), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(calls, 0);
}

TEST_F(CalibrationTest, ATableOfAStretchedModelServesThatStretchAlone) {
  const auto stretched = [](double factor) {
    return *StretchContext(ModelFiles::Open(GoldenPath("models/llama_tied_f16")).value(), factor);
  };
  const std::unique_ptr<ModelFiles> twice = stretched(2);
  // Longer than the model's own context of 128.
  std::vector<TextWindow> windows(windows_.begin(), windows_.begin() + 2);
  for (TextWindow& window : windows) window.tokens.resize(160, 5);
  ASSERT_TRUE(Calibrate(*twice, windows, Options("twice.thr"), nullptr).ok());
  ASSERT_TRUE(Calibrate(*files_, windows_, Options("plain.thr"), nullptr).ok());
  const auto load = [&](const char* name, const ModelFiles& files) {
    return ThresholdTable::Load(Options(name).output,
                                FingerprintOf(files, files.config(), DType::kBF16).value());
  };
  const auto own = load("twice.thr", *twice);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ((*own)->max_length(), 160);
  for (const absl::Status& status :
       {load("twice.thr", *files_).status(), load("plain.thr", *twice).status(),
        load("twice.thr", *stretched(4)).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(std::string(status.message()).find("--context-factor"), std::string::npos) << status;
  }
}

TEST_F(CalibrationTest, FingerprintsWeightsRopeAndCache) {
  const auto print = FingerprintOf(*files_, files_->config(), DType::kBF16);
  ASSERT_TRUE(print.ok()) << print.status();
  EXPECT_TRUE(
      CheckFingerprint(*print, *FingerprintOf(*files_, files_->config(), DType::kF32)).ok());
  ModelConfig scaled = files_->config();
  scaled.rope.scaling = RopeScaling::kYarn;
  scaled.rope.factor = 2;
  const absl::Status status =
      CheckFingerprint(*print, *FingerprintOf(*files_, scaled, DType::kBF16));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(status.message()).find("yarn factor 2"), std::string::npos) << status;
}

TEST(CutWindows, CutsEachFileAndJoinsWhatIsLeft) {
  const FakeTokenizer tokenizer(300);
  const std::vector<TextFile> files = {
      {"a", std::string(250, 'a')}, {"b", std::string(90, 'b')}, {"c", std::string(330, 'c')}};
  const auto windows = CutWindows(tokenizer, files, {.length = 100});
  ASSERT_TRUE(windows.ok()) << windows.status();
  std::vector<int> of_file(3);
  for (const TextWindow& window : *windows) {
    EXPECT_EQ(window.tokens.size(), 100u);
    ++of_file[static_cast<std::size_t>(window.file)];
  }
  // a and c by themselves, then a's 50, b's 90 and c's 30 tokens as one.
  EXPECT_EQ(of_file, (std::vector<int>{3, 0, 3}));
  EXPECT_EQ((*windows)[0].file, 0);
  EXPECT_EQ((*windows)[1].file, 2);
  const auto two = CutWindows(tokenizer, files, {.length = 100, .max_windows = 2});
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(two->size(), 2u);
  const absl::Status few = CutWindows(tokenizer, files, {.length = 1000}).status();
  EXPECT_EQ(few.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(few.message()).find("670 tokens"), std::string::npos) << few;
  const std::vector<std::string> missing = {"/no/such/text"};
  EXPECT_EQ(ReadTextFiles(missing).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace thresher
