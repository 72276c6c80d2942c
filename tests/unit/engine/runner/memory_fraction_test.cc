// A rank whose cache takes what its device has left, on a device of a known size.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "engine/model/model_files.h"
#include "engine/runner/cache_size.h"
#include "engine/runner/rank_runner.h"

namespace thresher {
namespace {

// The CPU's memory, counted, and as large as the test says. What is freed is not given back.
class CountingDevice final : public Device {
 public:
  CountingDevice(Device& device, std::int64_t total_bytes)
      : device_(device), total_bytes_(total_bytes) {}

  DeviceKind kind() const override { return device_.kind(); }
  std::string Description() const override { return device_.Description(); }
  absl::StatusOr<DeviceMemory> Memory() override {
    held_when_asked = held;
    return DeviceMemory{.total_bytes = total_bytes_, .free_bytes = total_bytes_ - held};
  }
  absl::StatusOr<DeviceBuffer> Allocate(std::size_t bytes) override {
    held += static_cast<std::int64_t>(bytes);
    return device_.Allocate(bytes);
  }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override { return device_.CreateStream(); }
  absl::StatusOr<std::unique_ptr<DeviceEvent>> CreateEvent() override {
    return device_.CreateEvent();
  }
  absl::StatusOr<DeviceBuffer> AllocateHost(std::size_t bytes) override {
    return device_.AllocateHost(bytes);
  }
  bool captures_work() const override { return device_.captures_work(); }
  absl::StatusOr<std::unique_ptr<CapturedWork>> Capture(
      Stream& stream, absl::FunctionRef<absl::Status()> queue) override {
    return device_.Capture(stream, queue);
  }
  absl::Status CopyToDevice(const void* from, void* to, std::size_t bytes) override {
    return device_.CopyToDevice(from, to, bytes);
  }
  absl::Status CopyToHost(const void* from, void* to, std::size_t bytes) override {
    return device_.CopyToHost(from, to, bytes);
  }

  std::int64_t held = 0, held_when_asked = 0;

 private:
  Device& device_;
  const std::int64_t total_bytes_;
};

class CountingBackend final : public Backend {
 public:
  explicit CountingBackend(std::int64_t total_bytes)
      : backend_(CreateBackend(DeviceKind::kCpu, 0, {.num_threads = 1}).value()),
        device_(backend_->device(), total_bytes) {}
  CountingDevice& device() override { return device_; }
  TransformerOps& ops() override { return backend_->ops(); }
  const KernelTable& kernels() const override { return backend_->kernels(); }
  const ScoreObserver& score_observer() const override { return backend_->score_observer(); }
  const BlockSelector& block_selector() const override { return backend_->block_selector(); }
  void BindThread() override { backend_->BindThread(); }

 private:
  const std::unique_ptr<Backend> backend_;
  CountingDevice device_;
};

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

class MemoryFractionTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<RankRunner>> Load(CountingBackend& backend, double fraction) {
    return RankRunner::Create(*files_, backend, *groups_[0],
                              {.memory_fraction = fraction,
                               .block_size = 16,
                               .max_tokens = 32,
                               .max_sequences = 4,
                               .max_position = 256,
                               .attention = catalog_.get()},
                              LoadProgress());
  }

  const std::unique_ptr<ModelFiles> files_ = ModelFiles::Open("synthetic:tiny").value();
  const std::unique_ptr<AttentionCatalog> catalog_ = AttentionCatalog::Create({}, nullptr).value();
  const std::vector<std::unique_ptr<TensorParallelGroup>> groups_ = CreateInProcessGroup(1);
  // 2 · 2 layers · 2 KV heads · 16 slots · 64 numbers of bf16.
  static constexpr std::int64_t kBlockBytes = 2 * 2 * 2 * 16 * 64 * 2;
};

TEST_F(MemoryFractionTest, TheCacheFillsTheShareAndNoMore) {
  CountingBackend backend(64 * kMebibyte);
  const auto runner = Load(backend, 0.5);
  ASSERT_TRUE(runner.ok()) << runner.status();
  const CountingDevice& device = backend.device();
  EXPECT_GT((*runner)->num_blocks(), 100);
  // All else had been allocated when the device was asked: nothing came after but the cache.
  EXPECT_EQ(device.held, device.held_when_asked + (*runner)->num_blocks() * kBlockBytes);
  EXPECT_LE(device.held, 32 * kMebibyte);
  EXPECT_GT(device.held + kBlockBytes, 32 * kMebibyte);
}

TEST_F(MemoryFractionTest, ADeviceThatTheModelFillsIsRefused) {
  CountingBackend backend(64 * kMebibyte);
  const absl::Status status = Load(backend, 0.001).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("--kv-memory-fraction 0.001"), std::string::npos) << status;
}

TEST_F(MemoryFractionTest, AGivenNumberOfBlocksWins) {
  CountingBackend backend(64 * kMebibyte);
  const auto runner = RankRunner::Create(*files_, backend, *groups_[0],
                                         {.num_blocks = 7,
                                          .memory_fraction = 0.001,
                                          .block_size = 16,
                                          .max_tokens = 32,
                                          .max_sequences = 4,
                                          .max_position = 256,
                                          .attention = catalog_.get()},
                                         LoadProgress());
  ASSERT_TRUE(runner.ok()) << runner.status();
  EXPECT_EQ((*runner)->num_blocks(), 7);
}

}  // namespace
}  // namespace thresher
