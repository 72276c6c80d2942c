// The token ids that each block of the KV cache stands for. Generated tokens live here while their
// request runs, and the prefix cache compares them exactly.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "scheduler/block_pool.h"
#include "scheduler/ids.h"

namespace thresher {

// Four bytes for each token of the KV cache; memory is touched only as it is used.
class BlockTokens final {
 public:
  BlockTokens(int num_blocks, int block_size)
      : block_size_(block_size),
        tokens_(std::make_unique_for_overwrite<TokenId[]>(static_cast<std::size_t>(num_blocks) *
                                                          block_size)) {}

  // [block_size]
  std::span<TokenId> of(BlockId block) {
    return {tokens_.get() + static_cast<std::size_t>(IndexOf(block)) * block_size_,
            static_cast<std::size_t>(block_size_)};
  }
  std::span<const TokenId> of(BlockId block) const {
    return {tokens_.get() + static_cast<std::size_t>(IndexOf(block)) * block_size_,
            static_cast<std::size_t>(block_size_)};
  }
  int block_size() const { return block_size_; }

 private:
  int block_size_;
  std::unique_ptr<TokenId[]> tokens_;
};

}  // namespace thresher
