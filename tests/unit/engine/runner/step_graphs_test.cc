#include "engine/runner/step_graphs.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/statusor.h"

namespace thresher {
namespace {

// A device that notes what was captured and what ran.
class CapturingDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::string Description() const override { return "fake"; }
  absl::StatusOr<DeviceBuffer> Allocate(std::size_t) override { return Refusal(); }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override {
    return std::make_unique<IdleStream>();
  }
  absl::StatusOr<std::unique_ptr<DeviceEvent>> CreateEvent() override { return Refusal(); }
  absl::StatusOr<DeviceBuffer> AllocateHost(std::size_t) override { return Refusal(); }
  bool captures_work() const override { return true; }
  absl::StatusOr<std::unique_ptr<CapturedWork>> Capture(
      Stream&, absl::FunctionRef<absl::Status()> queue) override {
    captures = true;
    const absl::Status status = queue();
    captures = false;
    if (!status.ok()) return status;
    ++num_captured;
    return std::make_unique<Work>(*this);
  }
  absl::StatusOr<DeviceMemory> Memory() override { return Refusal(); }
  absl::Status CopyToDevice(const void*, void*, std::size_t) override { return Refusal(); }
  absl::Status CopyToHost(const void*, void*, std::size_t) override { return Refusal(); }

  bool captures = false;
  int num_captured = 0, num_replayed = 0, num_released = 0;

 private:
  class IdleStream final : public Stream {
   public:
    absl::Status Synchronize() override { return absl::OkStatus(); }
  };
  class Work final : public CapturedWork {
   public:
    explicit Work(CapturingDevice& device) : device_(device) {}
    ~Work() override { ++device_.num_released; }
    absl::Status Launch(Stream&) override {
      ++device_.num_replayed;
      return absl::OkStatus();
    }

   private:
    CapturingDevice& device_;
  };
  static absl::Status Refusal() { return absl::UnimplementedError("not of this test"); }
};

class StepGraphsTest : public testing::Test {
 protected:
  // Whether the step ran outside of a capture or as a replay: once, in any case.
  void RunOnce(const StepShape& shape) {
    const int before = num_run_ + device_.num_replayed;
    const absl::Status status = graphs_.Run(shape, *stream_, [&] {
      if (!device_.captures) ++num_run_;
      return absl::OkStatus();
    });
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(num_run_ + device_.num_replayed, before + 1);
  }

  CapturingDevice device_;
  std::unique_ptr<Stream> stream_ = device_.CreateStream().value();
  StepGraphs graphs_{device_};
  int num_run_ = 0;
};

TEST_F(StepGraphsTest, RunsThenCapturesThenReplays) {
  for (int i = 0; i < 5; ++i) RunOnce({4, 7});
  EXPECT_EQ(num_run_, 1);
  EXPECT_EQ(device_.num_captured, 1);
  EXPECT_EQ(device_.num_replayed, 4);
}

TEST_F(StepGraphsTest, AnotherShapeHasAGraphOfItsOwn) {
  for (const StepShape& shape : {StepShape{4, 7}, StepShape{4, 8}, StepShape{5, 7}}) {
    RunOnce(shape);
    RunOnce(shape);
  }
  EXPECT_EQ(num_run_, 3);
  EXPECT_EQ(device_.num_captured, 3);
}

TEST_F(StepGraphsTest, ForgetsTheShapeThatWasUsedLongestAgo) {
  constexpr int kMost = static_cast<int>(StepGraphs::kMaxGraphs);
  for (int rows = 1; rows <= kMost; ++rows) {
    RunOnce({rows, 1});
    RunOnce({rows, 1});
  }
  RunOnce({1, 1});  // now 2 is the one that waits longest
  RunOnce({kMost + 1, 1});
  EXPECT_EQ(device_.num_released, 1);
  RunOnce({1, 1});
  RunOnce({kMost, 1});
  EXPECT_EQ(num_run_, kMost + 1);
  RunOnce({2, 1});
  EXPECT_EQ(num_run_, kMost + 2);
}

TEST_F(StepGraphsTest, AFailedCaptureIsTheStepsError) {
  RunOnce({1, 1});
  const absl::Status status =
      graphs_.Run({1, 1}, *stream_, [] { return absl::UnavailableError("broken"); });
  EXPECT_EQ(status, absl::UnavailableError("broken"));
}

TEST(PaddedRows, HasFourStepsForEachDoublingAndNeverMoreThanTheLimit) {
  for (const auto& [rows, padded] : {std::pair{1, 1},
                                     {5, 5},
                                     {8, 8},
                                     {9, 10},
                                     {16, 16},
                                     {17, 20},
                                     {33, 40},
                                     {61, 64},
                                     {65, 80},
                                     {255, 256},
                                     {256, 256}}) {
    EXPECT_EQ(PaddedRows(rows, 256), padded) << rows;
  }
  EXPECT_EQ(PaddedRows(17, 18), 18);
  for (int rows = 1; rows <= 256; ++rows) {
    EXPECT_GE(PaddedRows(rows, 256), rows);
    EXPECT_LE(PaddedRows(rows, 256), rows + std::max(0, rows / 4));
  }
}

}  // namespace
}  // namespace thresher
