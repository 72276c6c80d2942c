#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/support/simulation/step_driver.h"

namespace thresher {
namespace {

TEST(SchedulerOptions, RefusesEachFieldByNameAndLimit) {
  ASSERT_TRUE(simulation::SmallOptions().Validate().ok());
  const struct {
    std::string field;
    std::function<void(SchedulerOptions&)> spoil;
  } cases[] = {
      {"num_blocks", [](auto& o) { o.num_blocks = 0; }},
      {"block_size", [](auto& o) { o.block_size = 48; }},
      {"max_sequence_length", [](auto& o) { o.max_sequence_length = 0; }},
      {"max_running", [](auto& o) { o.max_running = 0; }},
      {"token_budget", [](auto& o) { o.token_budget = o.max_running + 127; }},
      {"token_budget", [](auto& o) { o.token_budget = 1 << 30; }},
      {"max_prefill_chunk", [](auto& o) { o.max_prefill_chunk = -1; }},
      {"max_queued_requests", [](auto& o) { o.max_queued_requests = 0; }},
      {"max_queued_prompt_tokens", [](auto& o) { o.max_queued_prompt_tokens = 0; }},
      {"reserve_tokens", [](auto& o) { o.reserve_tokens = 0; }},
      {"max_lookahead", [](auto& o) { o.max_lookahead = -1; }},
      {"max_head_skips", [](auto& o) { o.max_head_skips = -1; }},
  };
  for (const auto& spoiled : cases) {
    SchedulerOptions options = simulation::SmallOptions();
    spoiled.spoil(options);
    const absl::Status status = options.Validate();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << spoiled.field;
    EXPECT_EQ(std::string(status.message()).find(spoiled.field), 0u) << status;
  }
}

}  // namespace
}  // namespace thresher
