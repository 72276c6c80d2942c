// Which blocks the sequences hold and which they are promised: taking, sharing, registering and
// giving back.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "scheduler/block_pool.h"
#include "scheduler/block_tokens.h"
#include "scheduler/prefix_cache.h"
#include "scheduler/request_table.h"
#include "scheduler/sequence_table.h"

namespace thresher {

// What a sequence may still take.
struct BlockPromise {
  int promised = 0;  // never fails: the available blocks always cover all promises
  int reserved = 0;  // kept free of new admissions, but a running sequence may take it
};

// Not thread-safe; allocates memory at construction only. `sequences` outlives it.
class SequenceBlocks final {
 public:
  SequenceBlocks(int num_blocks, int block_size, const PrefixCacheOptions& cache,
                 SequenceTable& sequences);

  const BlockPool& pool() const { return pool_; }
  int BlocksFor(std::int64_t num_tokens) const {
    return static_cast<int>((num_tokens + block_size_ - 1) >> block_shift_);
  }
  // Blocks that a new admission may be promised or reserve.
  int room_to_admit() const { return room_to_grow() - reserved_; }
  // Blocks that a running sequence may take beyond its own promise.
  int room_to_grow() const { return pool_.num_available() - promised_; }
  // How many times blocks were given back: what did not fit may fit when it has changed.
  std::int64_t num_releases() const { return num_releases_; }
  // Blocks that sequences give back when the plans in flight have committed.
  int coming_room() const { return coming_room_; }

  // Cached blocks for the known tokens that the request may start from: whole blocks, short of the
  // last known token, and within the prompt ending at a multiple of its chunk_multiple. Valid until
  // the next call.
  std::span<const BlockId> FindPrefix(const Request& request);

  // Blocks of `total` that a sequence starting with `prefix` takes from the room to admit: all but
  // those that somebody holds already.
  int RoomNeeded(std::span<const BlockId> prefix, const BlockPromise& total) const;
  // Gives the row the prefix blocks and a promise of the rest of `total`.
  void Admit(int row, std::span<const BlockId> prefix, const BlockPromise& total);

  // Whether the row has a block for the token at `position`.
  bool Holds(int row, int position) const {
    return position < sequences_[row].num_blocks << block_shift_;
  }
  // Takes blocks until the row holds `num_blocks`: from its promise, its reserve, then the room to
  // grow, which the caller has checked.
  void Grow(int row, int num_blocks);
  // Notes the generated token at committed_length, whose K and V a commit has made real. Most calls
  // stay within one block, so that the block table is not even read.
  void WriteToken(int row, TokenId token) {
    Sequence& sequence = sequences_[row];
    const int offset = sequence.committed_length & (block_size_ - 1);
    if (offset == 0 || sequence.committed_length == sequence.num_known) {
      sequence.write_block = sequences_.blocks(row)[sequence.committed_length >> block_shift_];
    }
    tokens_.of(sequence.write_block)[offset] = token;
  }
  TokenId ReadToken(int row, int position) const;
  bool HasUnregistered(int row) const {
    const Sequence& sequence = sequences_[row];
    return sequence.committed_length >> block_shift_ > sequence.num_registered_blocks;
  }
  // Registers the blocks that the row's committed_length has filled.
  void RegisterFull(int row, const Request& request);

  // The row takes no more blocks; those it holds are named by plans in flight.
  void StopGrowing(int row);
  // Gives all blocks back, last to first. After StopGrowing.
  void Release(int row);

  // The pool and the cache are consistent; references, promises and estimates are the rows' sums.
  absl::Status CheckInvariants() const;

 private:
  int block_size_;
  int block_shift_;  // its logarithm: every sequence needs a quotient every step
  SequenceTable& sequences_;
  BlockPool pool_;
  BlockTokens tokens_;
  bool registers_;
  PrefixCache cache_;
  int promised_ = 0;
  int reserved_ = 0;
  int coming_room_ = 0;
  std::int64_t num_releases_ = 0;
};

}  // namespace thresher
