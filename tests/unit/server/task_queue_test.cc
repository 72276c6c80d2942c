#include "server/task_queue.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "server/out_of_memory.h"

namespace thresher {
namespace {

TEST(TaskQueueTest, ATaskWithoutMemoryTakesNoOtherWithIt) {
  TaskQueue queue(1);
  int ran = 0;
  queue.Post([&] { ++ran; });
  queue.Post([] { throw std::bad_alloc(); });
  queue.Post([&] { ++ran; });
  queue.Stop();
  EXPECT_EQ(ran, 2);
}

TEST(TaskQueueTest, WithinMemorySaysWhatWasMissing) {
  EXPECT_TRUE(WithinMemory([] {}).ok());
  EXPECT_EQ(WithinMemory([] { throw std::bad_alloc(); }).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(WithinMemory([] { throw std::length_error("too long"); }).code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace thresher
