#include "engine/runner/step_batch.h"

#include <gtest/gtest.h>

namespace thresher {
namespace {

TEST(StepBatch, LaysOutRowsPositionsAndSlots) {
  StepPlan plan;
  plan.tokens = {kPendingToken, 7, 21, 22, 23, 24, 25};
  plan.block_table = {BlockId{9}, BlockId{4}, BlockId{2}, BlockId{0}, BlockId{6}};
  plan.sequences = {
      {RequestId{1}, /*context_length=*/31, /*query_length=*/1, /*samples=*/true, 0, 0, 2},
      {RequestId{2}, 3, 1, true, 1, 2, 1},
      {RequestId{3}, 14, 5, false, 2, 3, 2},
  };
  plan.num_tokens = 7;
  StepBatch batch(/*block_size=*/16, 8, 4);
  for (int run = 0; run < 2; ++run) {
    batch.Build(plan, std::vector<TokenId>{50, 51, 52});
    const BatchInputs inputs = batch.inputs();
    EXPECT_EQ(std::vector<TokenId>(inputs.token_ids.begin(), inputs.token_ids.end()),
              (std::vector<TokenId>{50, 7, 21, 22, 23, 24, 25}));
    EXPECT_EQ(std::vector<std::int32_t>(inputs.positions.begin(), inputs.positions.end()),
              (std::vector<std::int32_t>{31, 3, 14, 15, 16, 17, 18}));
    EXPECT_EQ(std::vector<std::int64_t>(inputs.slot_mapping.begin(), inputs.slot_mapping.end()),
              (std::vector<std::int64_t>{4 * 16 + 15, 2 * 16 + 3, 14, 15, 96, 97, 98}));
    EXPECT_EQ(std::vector<std::int32_t>(batch.row_start().begin(), batch.row_start().end()),
              (std::vector<std::int32_t>{0, 1, 2, 7}));
    EXPECT_EQ(std::vector<std::int32_t>(batch.sample_rows().begin(), batch.sample_rows().end()),
              (std::vector<std::int32_t>{0, 1}));
  }
}

TEST(StepBatch, PaddingTouchesNoCacheAndIsNoSample) {
  StepPlan plan;
  plan.tokens = {7, kPendingToken};
  plan.block_table = {BlockId{1}, BlockId{2}};
  plan.sequences = {{RequestId{1}, 3, 1, true, 0, 0, 1}, {RequestId{2}, 5, 1, true, 1, 1, 1}};
  plan.num_tokens = plan.num_samples = 2;
  StepBatch batch(/*block_size=*/16, 8, 4);
  batch.Build(plan, std::vector<TokenId>{50, 51});
  batch.PadTo(4);
  const BatchInputs inputs = batch.inputs();
  EXPECT_EQ(std::vector<TokenId>(inputs.token_ids.begin(), inputs.token_ids.end()),
            (std::vector<TokenId>{7, 51, 0, 0}));
  EXPECT_EQ(std::vector<std::int32_t>(inputs.positions.begin(), inputs.positions.end()),
            (std::vector<std::int32_t>{3, 5, 0, 0}));
  EXPECT_EQ(std::vector<std::int64_t>(inputs.slot_mapping.begin(), inputs.slot_mapping.end()),
            (std::vector<std::int64_t>{19, 37, -1, -1}));
  EXPECT_EQ(batch.sample_rows().size(), 2u);
  EXPECT_EQ(std::vector<std::int32_t>(batch.padded_sample_rows().begin(),
                                      batch.padded_sample_rows().end()),
            (std::vector<std::int32_t>{0, 1, 2, 3}));
  batch.Build(plan, std::vector<TokenId>{50, 51});
  EXPECT_EQ(batch.inputs().num_tokens(), 2);
}

}  // namespace
}  // namespace thresher
