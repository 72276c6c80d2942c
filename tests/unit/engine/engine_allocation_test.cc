// A step in steady state allocates nothing: not in the loop, the scheduler, the streams or the
// readers, nor in the building of a batch. Replaces the global operator new of this test binary by
// one that counts.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/runner/step_batch.h"
#include "tests/support/fakes/fake_engine.h"

namespace {

std::atomic<long> num_allocations{0};

void* CountedAlloc(std::size_t size, std::size_t alignment) {
  ++num_allocations;
  size = (size + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, size == 0 ? alignment : size)) return memory;
  std::abort();
}

}  // namespace

// Not inlined, or GCC sees free() meet what came from operator new, and warns.
[[gnu::noinline]] void* operator new(std::size_t size) {
  return CountedAlloc(size, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new[](std::size_t size) {
  return CountedAlloc(size, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return CountedAlloc(size, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return CountedAlloc(size, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  return CountedAlloc(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new[](std::size_t size, std::align_val_t alignment) {
  return CountedAlloc(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace thresher {
namespace {

struct QuietListener final : StreamListener {
  void OnEventsReady(std::span<const std::uint64_t> tags) override { num_tags += tags.size(); }
  std::atomic<std::size_t> num_tags = 0;
};

TEST(EngineAllocation, DecodingAllocatesNothing) {
  CountingObserver observer;
  QuietListener listener;
  FakeEngine fake({}, &observer);
  fake.runner->Hold();
  std::vector<std::unique_ptr<RequestHandle>> handles;
  for (int i = 0; i < 16; ++i) {
    handles.push_back(MustSubmit(*fake.engine, Request(10 + i, 200), &listener, i));
  }
  std::vector<TokenEvent> events;
  const auto run_steps = [&](int steps) {
    std::size_t num_events = 0;
    for (int i = 0; i < steps; ++i) {
      fake.runner->AllowSteps(1);
      fake.runner->AwaitHeldWait();
      for (const auto& handle : handles) {
        events.clear();
        EXPECT_TRUE(handle->Poll(events));
        num_events += events.size();
      }
    }
    return num_events;
  };
  run_steps(60);
  const long before = num_allocations;
  EXPECT_EQ(run_steps(100), 1600u);
  EXPECT_EQ(num_allocations - before, 0);
  EXPECT_GE(listener.num_tags.load(), 1600u);
  fake.runner->Release();
}

TEST(EngineAllocation, BuildingABatchAllocatesNothing) {
  StepPlan plan;
  for (int i = 0; i < 8; ++i) {
    plan.sequences.push_back({RequestId{i}, 3 * i, 4, true, 4 * i, 2 * i, 2});
    for (int j = 0; j < 4; ++j) plan.tokens.push_back(j);
    plan.block_table.insert(plan.block_table.end(), {BlockId{i}, BlockId{i + 8}});
  }
  const std::vector<TokenId> last_tokens(8, 1);
  StepBatch batch(/*block_size=*/16, /*max_tokens=*/32, /*max_sequences=*/8);
  const long before = num_allocations;
  batch.Build(plan, last_tokens);
  EXPECT_EQ(num_allocations - before, 0);
  EXPECT_EQ(batch.inputs().num_tokens(), 32);
}

}  // namespace
}  // namespace thresher
