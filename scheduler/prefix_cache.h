// Finds blocks whose K and V are what a request would compute: full blocks in chains, each salted,
// compared by their tokens. The pool keeps the order of eviction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/block_pool.h"
#include "scheduler/block_tokens.h"
#include "scheduler/ids.h"
#include "scheduler/prefix_salt.h"

namespace thresher {

// One position in the tree of cached chains: (parent node, tokens, salt). Numbers are never used
// again, so that a chain whose parent was evicted can never be matched by another parent.
enum class ChainNode : std::uint64_t {};
inline constexpr ChainNode kChainRoot{0};

struct PrefixCacheOptions {
  bool enabled = true;       // false: nothing is registered and nothing is found
  int max_chain_blocks = 1;  // longest chain that a lookup follows
  // The bits of the table's hash. Fewer make collisions, which cost time and never correctness.
  std::uint64_t hash_mask = ~std::uint64_t{0};
};

// A block matches if its parent node, its salt and all its tokens are equal: hashes only find
// candidates. Allocates memory at construction only. Not thread-safe. `pool` and `tokens` outlive
// the cache.
//
// Eviction takes the block released longest ago. A sequence releases its blocks last to first, so
// within a chain the tail goes first and what is left can still be found.
class PrefixCache final {
 public:
  PrefixCache(const PrefixCacheOptions& options, BlockPool& pool, BlockTokens& tokens);

  // The longest cached chain for the first blocks of `tokens`, at most `max_blocks` of them, under
  // the salts that the spans accept. Takes no reference. Valid until the next Lookup.
  std::span<const BlockId> Lookup(std::span<const TokenId> tokens, std::span<const SaltSpan> spans,
                                  int max_blocks);

  // Enters a full owned block, whose tokens stand in BlockTokens, behind `parent`. If an equal
  // block is there already, that one stays and `block` is its twin. Returns the chain's node so
  // far.
  ChainNode Register(ChainNode parent, BlockId block, std::uint64_t salt);

  ChainNode node(BlockId block) const { return entries_[IndexOf(block)].node; }
  bool contains(BlockId block) const { return entries_[IndexOf(block)].registered; }

  // A free block, else the oldest cached one, evicted. The caller has made sure that one is
  // available.
  BlockId Allocate();
  // Drops a reference; the block stays cached if it is registered. A twin that goes makes the block
  // that stands for it the newest instead.
  void Release(BlockId block);

  // The table holds exactly the registered blocks, and none of them is free.
  absl::Status CheckInvariants() const;

 private:
  // One cache line: blocks come back in no order, so every entry met is a miss.
  struct alignas(64) Entry {
    ChainNode parent{};
    ChainNode node{};
    std::uint64_t salt = 0;
    std::uint64_t hash = 0;
    std::int32_t next = -1;     // in the bucket
    BlockId twin_of{kNoBlock};  // holds while that block's node is `node`
    bool registered = false;
  };

  std::uint64_t KeyHash(ChainNode parent, std::uint64_t token_hash, std::uint64_t salt) const;
  BlockId Find(ChainNode parent, std::uint64_t token_hash, std::uint64_t salt,
               std::span<const TokenId> tokens) const;
  void Forget(BlockId block);

  PrefixCacheOptions options_;
  BlockPool& pool_;
  BlockTokens& tokens_;
  std::vector<Entry> entries_;         // [num_blocks]
  std::vector<std::int32_t> buckets_;  // a power of two
  std::uint64_t next_node_ = 1;
  int num_registered_ = 0;
  // Scratch of Lookup, [max_chain_blocks]: the path tried, the best one, which salts are tried.
  std::vector<BlockId> path_;
  std::vector<BlockId> best_;
  std::vector<std::uint8_t> tried_;
  std::vector<std::uint64_t> token_hashes_;
};

}  // namespace thresher
