#include "scheduler/prefix_cache.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "scheduler/broken_invariant.h"

namespace thresher {
namespace {

constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio: spreads all bits

std::uint64_t Mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * kOdd;
  return hash ^ (hash >> 29);
}

// Four lanes, because one chain of multiplications would wait for itself. Block sizes are multiples
// of 16.
std::uint64_t HashTokens(std::span<const TokenId> tokens) {
  std::uint64_t lanes[4] = {1, 2, 3, 4};
  for (std::size_t i = 0; i + 8 <= tokens.size(); i += 8) {
    for (int lane = 0; lane < 4; ++lane) {
      const std::uint64_t low = static_cast<std::uint32_t>(tokens[i + 2 * lane]);
      const std::uint64_t high = static_cast<std::uint32_t>(tokens[i + 2 * lane + 1]);
      lanes[lane] = Mix(lanes[lane], low | high << 32);
    }
  }
  return Mix(Mix(Mix(lanes[0], lanes[1]), lanes[2]), lanes[3]);
}

// The probes of one lookup over its depth: bounds the search where two salts fork again and again.
constexpr int kProbesPerBlock = 4;

}  // namespace

PrefixCache::PrefixCache(const PrefixCacheOptions& options, BlockPool& pool, BlockTokens& tokens)
    : options_(options), pool_(pool), tokens_(tokens), entries_(pool.num_blocks()) {
  if (!options_.enabled) return;
  // Twice the blocks or more: most buckets hold one entry or none.
  buckets_.assign(2 * std::bit_ceil(static_cast<std::size_t>(pool.num_blocks())), -1);
  path_.resize(options.max_chain_blocks);
  best_.resize(options.max_chain_blocks);
  tried_.resize(options.max_chain_blocks + 1);
  token_hashes_.resize(options.max_chain_blocks);
}

std::uint64_t PrefixCache::KeyHash(ChainNode parent, std::uint64_t token_hash,
                                   std::uint64_t salt) const {
  const std::uint64_t hash =
      Mix(Mix(token_hash, static_cast<std::uint64_t>(parent)), salt) * kOdd >> 8;
  return hash & options_.hash_mask;
}

BlockId PrefixCache::Find(ChainNode parent, std::uint64_t token_hash, std::uint64_t salt,
                          std::span<const TokenId> tokens) const {
  const std::uint64_t hash = KeyHash(parent, token_hash, salt);
  for (std::int32_t i = buckets_[hash & (buckets_.size() - 1)]; i >= 0; i = entries_[i].next) {
    const Entry& entry = entries_[i];
    if (entry.hash == hash && entry.parent == parent && entry.salt == salt &&
        std::ranges::equal(tokens_.of(BlockId{i}), tokens)) {
      return BlockId{i};
    }
  }
  return kNoBlock;
}

// Depth first over the two salts of each block, the written one first. Nearly always the first
// descent is the answer; the search matters where a dense and a sparse branch hang on one prefix.
std::span<const BlockId> PrefixCache::Lookup(std::span<const TokenId> tokens,
                                             std::span<const SaltSpan> spans, int max_blocks) {
  if (!options_.enabled || max_blocks <= 0) return {};
  const int block_size = tokens_.block_size();
  max_blocks = std::min(
      {max_blocks, static_cast<int>(tokens.size()) / block_size, options_.max_chain_blocks});
  int depth = 0;
  int hashed = 0;
  int best = 0;
  int probes = kProbesPerBlock * max_blocks;
  tried_[0] = 0;
  while (best < max_blocks && probes > 0) {
    if (depth == max_blocks || tried_[depth] == 2) {
      if (depth == 0) break;
      --depth;
      continue;
    }
    const auto block_tokens = tokens.subspan(std::size_t(depth) * block_size, block_size);
    if (depth == hashed) token_hashes_[hashed++] = HashTokens(block_tokens);
    const SaltSpan& span = SpanOfBlock(spans, depth, block_size);
    const bool second = tried_[depth]++ == 1;
    if (second && span.also_accepted == span.written) continue;
    --probes;
    const ChainNode parent = depth == 0 ? kChainRoot : node(path_[depth - 1]);
    const BlockId found = Find(parent, token_hashes_[depth],
                               second ? span.also_accepted : span.written, block_tokens);
    if (found == kNoBlock) continue;
    path_[depth++] = found;
    tried_[depth] = 0;
    if (depth > best) {
      // Only what changed since the last best needs a copy; a first descent copies one a level.
      int from = depth - 1;
      while (from > 0 && best_[from - 1] != path_[from - 1]) --from;
      std::copy(path_.begin() + from, path_.begin() + depth, best_.begin() + from);
      best = depth;
    }
  }
  return {best_.data(), static_cast<std::size_t>(best)};
}

ChainNode PrefixCache::Register(ChainNode parent, BlockId block, std::uint64_t salt) {
  if (!options_.enabled) return kChainRoot;
  const auto tokens = tokens_.of(block);
  const std::uint64_t token_hash = HashTokens(tokens);
  Entry& entry = entries_[IndexOf(block)];
  RequireInvariant(pool_.references(block) > 0 && !entry.registered,
                   "only an owned block enters the prefix cache, once", IndexOf(block),
                   pool_.references(block));
  const BlockId twin = Find(parent, token_hash, salt, tokens);
  if (twin != kNoBlock) {
    entry.node = node(twin);
    entry.twin_of = twin;
    return entry.node;
  }
  const std::uint64_t hash = KeyHash(parent, token_hash, salt);
  std::int32_t& bucket = buckets_[hash & (buckets_.size() - 1)];
  entry = {.parent = parent,
           .node = ChainNode{next_node_++},
           .salt = salt,
           .hash = hash,
           .next = bucket,
           .registered = true};
  bucket = IndexOf(block);
  ++num_registered_;
  return entry.node;
}

void PrefixCache::Forget(BlockId block) {
  Entry& entry = entries_[IndexOf(block)];
  std::int32_t* link = &buckets_[entry.hash & (buckets_.size() - 1)];
  while (*link != IndexOf(block)) link = &entries_[*link].next;
  *link = entry.next;
  entry = {};
  --num_registered_;
}

BlockId PrefixCache::Allocate() {
  BlockId block = pool_.TakeFree();
  if (block != kNoBlock) return block;
  block = pool_.TakeOldestCached();
  RequireInvariant(block != kNoBlock, "a block was promised and none is available",
                   pool_.num_owned(), pool_.num_blocks());
  Forget(block);
  // A chunk evicts several in a row; the next one's entry comes from memory meanwhile.
  if (pool_.oldest_cached() != kNoBlock) {
    __builtin_prefetch(&entries_[IndexOf(pool_.oldest_cached())]);
  }
  return block;
}

void PrefixCache::Release(BlockId block) {
  Entry& entry = entries_[IndexOf(block)];
  pool_.DropReference(block, entry.registered);
  if (entry.twin_of == kNoBlock || pool_.references(block) > 0) return;
  // The twin's number tells whether the block still stands for the same chain.
  if (contains(entry.twin_of) && node(entry.twin_of) == entry.node) pool_.Touch(entry.twin_of);
  entry = {};
}

absl::Status PrefixCache::CheckInvariants() const {
  int linked = 0;
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    for (std::int32_t i = buckets_[bucket]; i >= 0; i = entries_[i].next) {
      if (++linked > num_registered_) return absl::InternalError("a bucket links in a circle");
      if (!entries_[i].registered || (entries_[i].hash & (buckets_.size() - 1)) != bucket) {
        return absl::InternalError(absl::StrCat("block ", i, " is in the wrong bucket"));
      }
    }
  }
  int registered = 0;
  for (int i = 0; i < pool_.num_blocks(); ++i) {
    const BlockId block{i};
    registered += contains(block);
    if (contains(block) && !pool_.is_cached(block) && pool_.references(block) < 1) {
      return absl::InternalError(absl::StrCat("block ", i, " is in the prefix cache but free"));
    }
    if (pool_.is_cached(block) && !contains(block)) {
      return absl::InternalError(absl::StrCat("block ", i, " is cached but cannot be found"));
    }
  }
  if (registered != num_registered_ || linked != registered) {
    return absl::InternalError(absl::StrCat("prefix cache: ", registered, " blocks marked, ",
                                            linked, " linked, ", num_registered_, " counted"));
  }
  return absl::OkStatus();
}

}  // namespace thresher
