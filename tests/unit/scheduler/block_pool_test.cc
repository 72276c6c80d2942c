#include "scheduler/block_pool.h"

#include <gtest/gtest.h>

namespace thresher {
namespace {

TEST(BlockPool, CountsEveryBlockInExactlyOneState) {
  BlockPool pool(3);
  EXPECT_EQ(pool.num_free(), 3);
  const BlockId kept = pool.TakeFree();
  const BlockId dropped = pool.TakeFree();
  EXPECT_EQ(pool.num_owned(), 2);
  pool.DropReference(kept, /*keep=*/true);
  pool.DropReference(dropped, /*keep=*/false);
  EXPECT_EQ(pool.num_owned(), 0);
  EXPECT_EQ(pool.num_cached(), 1);
  EXPECT_EQ(pool.num_free(), 2);
  EXPECT_TRUE(pool.is_cached(kept));
  EXPECT_FALSE(pool.is_cached(dropped));
  EXPECT_TRUE(pool.CheckInvariants().ok());
}

TEST(BlockPool, GivesNothingWhenNothingIsFree) {
  BlockPool pool(1);
  EXPECT_NE(pool.TakeFree(), kNoBlock);
  EXPECT_EQ(pool.TakeFree(), kNoBlock);
  EXPECT_EQ(pool.TakeOldestCached(), kNoBlock);
}

TEST(BlockPool, TakesTheBlockCachedLongest) {
  BlockPool pool(3);
  const BlockId a = pool.TakeFree();
  const BlockId b = pool.TakeFree();
  const BlockId c = pool.TakeFree();
  for (const BlockId block : {b, c, a}) pool.DropReference(block, true);
  EXPECT_EQ(pool.oldest_cached(), b);
  pool.Touch(b);
  EXPECT_EQ(pool.TakeOldestCached(), c);
  EXPECT_EQ(pool.TakeOldestCached(), a);
  EXPECT_EQ(pool.TakeOldestCached(), b);
  EXPECT_EQ(pool.references(b), 1);
  EXPECT_TRUE(pool.CheckInvariants().ok());
}

TEST(BlockPool, KeepsASharedBlockUntilItsLastReference) {
  BlockPool pool(1);
  const BlockId block = pool.TakeFree();
  pool.AddReference(block);
  pool.DropReference(block, false);
  EXPECT_EQ(pool.num_owned(), 1);
  pool.DropReference(block, true);
  EXPECT_EQ(pool.num_cached(), 1);
  pool.AddReference(block);  // a hit takes it out of the order of eviction
  EXPECT_EQ(pool.num_cached(), 0);
  EXPECT_EQ(pool.TakeOldestCached(), kNoBlock);
  EXPECT_TRUE(pool.CheckInvariants().ok());
}

TEST(BlockPoolDeathTest, EndsTheProcessOnADoubleRelease) {
  BlockPool pool(1);
  const BlockId block = pool.TakeFree();
  pool.DropReference(block, false);
  EXPECT_DEATH(pool.DropReference(block, false), "released more often");
  EXPECT_DEATH(pool.AddReference(block), "free block cannot be shared");
}

}  // namespace
}  // namespace thresher
