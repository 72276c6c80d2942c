#include "scheduler/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace thresher {
namespace {

constexpr int kBlockSize = 16;
using Tokens = std::vector<TokenId>;

Tokens Blocks(std::initializer_list<int> values) {
  Tokens tokens;
  for (const int value : values) tokens.insert(tokens.end(), kBlockSize, value);
  return tokens;
}

class PrefixCacheTest : public ::testing::Test {
 protected:
  // Writes and registers the full blocks of `tokens`, one salt each.
  std::vector<BlockId> Enter(const Tokens& tokens, const std::vector<std::uint64_t>& salts) {
    std::vector<BlockId> blocks;
    ChainNode node = kChainRoot;
    for (std::size_t i = 0; i < salts.size(); ++i) {
      const BlockId block = cache_.Allocate();
      std::copy_n(tokens.begin() + static_cast<int>(i) * kBlockSize, kBlockSize,
                  tokens_.of(block).begin());
      node = cache_.Register(node, block, salts[i]);
      blocks.push_back(block);
    }
    return blocks;
  }
  void Release(const std::vector<BlockId>& blocks) {
    for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) cache_.Release(*it);
  }
  std::vector<BlockId> Find(const Tokens& tokens, const std::vector<SaltSpan>& spans = {{0, 0, 0}},
                            int max_blocks = 99) {
    const auto found = cache_.Lookup(tokens, spans, max_blocks);
    return {found.begin(), found.end()};
  }
  void TearDown() override {
    EXPECT_TRUE(pool_.CheckInvariants().ok());
    EXPECT_TRUE(cache_.CheckInvariants().ok()) << cache_.CheckInvariants();
  }

  BlockPool pool_{12};
  BlockTokens tokens_{12, kBlockSize};
  PrefixCache cache_{{.max_chain_blocks = 8}, pool_, tokens_};
};

TEST_F(PrefixCacheTest, FindsTheLongestChainOfWholeBlocks) {
  const auto blocks = Enter(Blocks({1, 2, 3}), {0, 0, 0});
  EXPECT_EQ(Find(Blocks({1, 2, 3})), blocks);
  EXPECT_EQ(Find(Blocks({1, 2, 4})), std::vector(blocks.begin(), blocks.begin() + 2));
  EXPECT_TRUE(Find(Blocks({2, 3})).empty());  // the same tokens behind another parent
  Tokens partial = Blocks({1, 2});
  partial.pop_back();
  EXPECT_EQ(Find(partial).size(), 1u);
  EXPECT_EQ(Find(Blocks({1, 2, 3}), {{0, 0, 0}}, 1).size(), 1u);
}

TEST_F(PrefixCacheTest, KeepsSaltsApart) {
  const auto blocks = Enter(Blocks({1, 2}), {0, 7});
  EXPECT_EQ(Find(Blocks({1, 2})).size(), 1u);
  EXPECT_EQ(Find(Blocks({1, 2}), {{0, 7, 7}}).size(), 0u);
  EXPECT_EQ(Find(Blocks({1, 2}), {{0, 0, 7}}), blocks);
  EXPECT_EQ(Find(Blocks({1, 2}), {{0, 0, 0}, {16, 7, 7}}), blocks);
}

TEST_F(PrefixCacheTest, TriesTheAcceptedBranchWhereTheWrittenOneEndsEarlier) {
  // Turn one was decoded sparsely (salt 7) and went on; somebody dense computed its second block.
  const auto sparse = Enter(Blocks({1, 2, 3}), {0, 7, 0});
  const auto dense = Enter(Blocks({1, 2}), {0, 0});
  EXPECT_EQ(Find(Blocks({1, 2, 3}), {{0, 0, 7}}), sparse);
  EXPECT_EQ(Find(Blocks({1, 2, 3})), (std::vector{sparse[0], dense[1]}));
}

TEST_F(PrefixCacheTest, EvictsTheTailFirst) {
  Release(Enter(Blocks({1, 2, 3, 4}), {0, 0, 0, 0}));
  std::vector<BlockId> taken;
  for (int i = 0; i < 8; ++i) taken.push_back(cache_.Allocate());  // all that were free
  EXPECT_EQ(Find(Blocks({1, 2, 3, 4})).size(), 4u);
  for (std::size_t left = 3; left > 0; --left) {
    taken.push_back(cache_.Allocate());
    EXPECT_EQ(Find(Blocks({1, 2, 3, 4})).size(), left);
  }
}

TEST_F(PrefixCacheTest, ATwinStaysPrivateAndKeepsItsParentRecent) {
  const auto first = Enter(Blocks({1, 2}), {0, 0});
  const auto second = Enter(Blocks({1, 2, 3}), {0, 0, 0});  // computed at the same time
  EXPECT_EQ(Find(Blocks({1, 2, 3})), (std::vector{first[0], first[1], second[2]}));
  Release(first);
  Release(second);
  EXPECT_EQ(pool_.num_cached(), 3);  // the two twins are free
  while (pool_.num_free() > 0) cache_.Allocate();
  // The parents were released first, yet the child goes first.
  cache_.Allocate();
  EXPECT_EQ(Find(Blocks({1, 2, 3})).size(), 2u);
}

TEST_F(PrefixCacheTest, AnEvictedParentsChildIsNeverFoundUnderAnother) {
  const auto first = Enter(Blocks({1}), {0});
  const auto second = Enter(Blocks({1, 2}), {0, 0});  // its first block is a twin
  Release(first);
  while (pool_.num_free() > 0) cache_.Allocate();
  cache_.Allocate();  // evicts the parent while the child is in use
  EXPECT_TRUE(Find(Blocks({1, 2})).empty());
  Release(second);  // the twin's block is gone: nothing to touch
}

TEST(PrefixCache, ComparesTokensWhenAllHashesCollide) {
  BlockPool pool(200);
  BlockTokens tokens(200, kBlockSize);
  PrefixCache cache({.max_chain_blocks = 2, .hash_mask = 0}, pool, tokens);
  std::vector<std::vector<BlockId>> chains;
  for (int i = 0; i < 100; ++i) {  // all chains share the tokens of their second block
    std::vector<BlockId> chain;
    ChainNode node = kChainRoot;
    for (const int value : {i, 1000}) {
      chain.push_back(cache.Allocate());
      std::ranges::fill(tokens.of(chain.back()), value);
      node = cache.Register(node, chain.back(), 0);
    }
    chains.push_back(chain);
  }
  const std::vector<SaltSpan> dense = {{0, 0, 0}};
  for (int i = 0; i < 100; ++i) {
    const auto found = cache.Lookup(Blocks({i, 1000}), dense, 2);
    EXPECT_TRUE(std::ranges::equal(found, chains[i])) << i;
  }
  EXPECT_TRUE(cache.Lookup(Blocks({100, 1000}), dense, 2).empty());
  EXPECT_TRUE(cache.Lookup(Blocks({1, 1000}), std::vector<SaltSpan>{{0, 1, 1}}, 2).empty());
  EXPECT_TRUE(cache.CheckInvariants().ok());
}

TEST(PrefixCache, FindsNothingWhenOff) {
  BlockPool pool(1);
  BlockTokens tokens(1, kBlockSize);
  PrefixCache cache({.enabled = false}, pool, tokens);
  const BlockId block = cache.Allocate();
  std::ranges::fill(tokens.of(block), 1);
  cache.Register(kChainRoot, block, 0);
  EXPECT_TRUE(cache.Lookup(Blocks({1}), std::vector<SaltSpan>{{0, 0, 0}}, 1).empty());
  cache.Release(block);
  EXPECT_EQ(pool.num_free(), 1);
}

}  // namespace
}  // namespace thresher
