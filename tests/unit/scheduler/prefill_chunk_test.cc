#include "scheduler/prefill_chunk.h"

#include <gtest/gtest.h>

namespace thresher {
namespace {

TEST(PrefillChunkEnd, EndsAtTheLastMultipleThatFits) {
  const PrefillExtent extent{
      .context_length = 128, .prompt_length = 1000, .num_tokens = 1000, .chunk_multiple = 128};
  EXPECT_EQ(PrefillChunkEnd(extent, 300), 384);
  EXPECT_EQ(PrefillChunkEnd(extent, 128), 256);
  EXPECT_EQ(PrefillChunkEnd(extent, 127), 128);  // nothing fits
  EXPECT_EQ(PrefillChunkEnd(extent, 0), 128);
}

TEST(PrefillChunkEnd, ThePromptsLastChunkEndsAnywhere) {
  const PrefillExtent extent{
      .context_length = 896, .prompt_length = 1000, .num_tokens = 1000, .chunk_multiple = 128};
  EXPECT_EQ(PrefillChunkEnd(extent, 104), 1000);
  EXPECT_EQ(PrefillChunkEnd(extent, 103), 896);
}

TEST(PrefillChunkEnd, NeverCrossesThePrompt) {
  PrefillExtent extent{
      .context_length = 32, .prompt_length = 100, .num_tokens = 140, .chunk_multiple = 16};
  EXPECT_EQ(PrefillChunkEnd(extent, 1000), 100);
  extent.context_length = 100;  // generated before a preemption: no multiple there
  EXPECT_EQ(PrefillChunkEnd(extent, 1000), 140);
  EXPECT_EQ(PrefillChunkEnd(extent, 7), 107);
}

}  // namespace
}  // namespace thresher
