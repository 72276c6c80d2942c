// Steps allocate nothing. Replaces the global operator new of this test binary by one that counts.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "tests/support/simulation/step_driver.h"

namespace {

std::atomic<long> num_allocations{0};

void* Allocate(std::size_t size, std::size_t alignment) {
  ++num_allocations;
  size = (size + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, size == 0 ? alignment : size)) return memory;
  std::abort();
}

}  // namespace

// Not inlined, or GCC sees free() meet what came from operator new, and warns.
[[gnu::noinline]] void* operator new(std::size_t size) {
  return Allocate(size, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return Allocate(size, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace thresher::simulation {
namespace {

constexpr int kMaxRunning = 32;

class Steps final {
 public:
  Steps() : scheduler_(Options()) {
    samples_.resize(kMaxRunning);
    finished_.reserve(2 * kMaxRunning);
  }

  void Submit(RequestSpec spec) {
    ASSERT_TRUE(scheduler_.Submit({&spec, 1}, absl::UnixEpoch()).ok());
  }
  // Schedules the next plan and commits the one before: two in flight.
  void Step() {
    finished_.clear();
    StepPlan& next = plans_[num_steps_++ % 2];
    scheduler_.Schedule(absl::UnixEpoch(), next, finished_);
    StepPlan& oldest = plans_[num_steps_ % 2];
    if (num_steps_ < 2 || oldest.empty()) return;
    for (StepResult::Sample& sample : samples_) sample.token = next_token_++;
    scheduler_.Commit(oldest.step,
                      {std::span(samples_).first(static_cast<std::size_t>(oldest.num_samples))},
                      finished_);
    total_finished_ += static_cast<int>(finished_.size());
  }
  Scheduler& scheduler() { return scheduler_; }
  int total_finished() const { return total_finished_; }

 private:
  static SchedulerOptions Options() {
    SchedulerOptions options = SmallOptions();
    options.max_running = kMaxRunning;
    options.token_budget = kMaxRunning + 128;
    options.max_queued_requests = 64;
    options.num_blocks = 2000;
    options.max_sequence_length = 2000;
    return options;
  }

  Scheduler scheduler_;
  StepPlan plans_[2];
  std::vector<StepResult::Sample> samples_;
  std::vector<FinishedRequest> finished_;
  TokenId next_token_ = 0;
  int num_steps_ = 0;
  int total_finished_ = 0;
};

TEST(Allocation, ADecodeOnlySteadyStateAllocatesNothing) {
  Steps steps;
  for (int id = 0; id < kMaxRunning; ++id) steps.Submit(SpecOf(id, 40, 900, 1000 * id));
  while (steps.scheduler().load().num_waiting > 0) steps.Step();
  for (int i = 0; i < 5; ++i) steps.Step();
  const long before = num_allocations;
  for (int i = 0; i < 500; ++i) steps.Step();
  EXPECT_EQ(num_allocations - before, 0);
  EXPECT_EQ(steps.scheduler().load().num_running, kMaxRunning);
  EXPECT_GT(steps.scheduler().load().blocks_owned, kMaxRunning * 30);  // they did grow
}

TEST(Allocation, AFinishAndAnAdmissionEachStepAllocateNothing) {
  Steps steps;
  std::vector<RequestSpec> specs;  // built before the count: what Submit moves in
  for (int id = 0; id < 2000; ++id) {
    specs.push_back(SpecOf(id, 20 + id % 70, kMaxRunning, 31 * (id % 50)));
  }
  std::size_t next = 0;
  const auto feed = [&] {
    if (steps.scheduler().load().num_waiting == 0) steps.Submit(std::move(specs[next++]));
    steps.Step();
  };
  for (int i = 0; i < 500; ++i) feed();
  const std::size_t submitted = next;
  const int finished = steps.total_finished();
  const long before = num_allocations;
  for (int i = 0; i < 1000; ++i) feed();
  EXPECT_EQ(num_allocations - before, 0);
  EXPECT_GT(next - submitted, 800u);
  EXPECT_GT(steps.total_finished() - finished, 800);
  EXPECT_GT(steps.scheduler().load().prefix_hit_tokens, 0);
}

}  // namespace
}  // namespace thresher::simulation
