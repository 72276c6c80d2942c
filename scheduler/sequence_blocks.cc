#include "scheduler/sequence_blocks.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scheduler/broken_invariant.h"

namespace thresher {

SequenceBlocks::SequenceBlocks(int num_blocks, int block_size, const PrefixCacheOptions& cache,
                               SequenceTable& sequences)
    : block_size_(block_size),
      block_shift_(std::countr_zero(static_cast<unsigned>(block_size))),
      sequences_(sequences),
      pool_(num_blocks),
      tokens_(num_blocks, block_size),
      registers_(cache.enabled),
      cache_(cache, pool_, tokens_) {}

std::span<const BlockId> SequenceBlocks::FindPrefix(const Request& request) {
  if (!request.use_prefix_cache) return {};
  const int num_known = static_cast<int>(request.known.size());
  auto prefix = cache_.Lookup(request.known, request.salts, (num_known - 1) / block_size_);
  while (!prefix.empty()) {
    const int end = static_cast<int>(prefix.size()) * block_size_;
    if (end >= request.prompt_length || end % request.chunk_multiple == 0) break;
    prefix = prefix.first(prefix.size() - 1);
  }
  return prefix;
}

int SequenceBlocks::RoomNeeded(std::span<const BlockId> prefix, const BlockPromise& total) const {
  int held = 0;
  for (const BlockId block : prefix) held += !pool_.is_cached(block);
  return total.promised + total.reserved - held;
}

void SequenceBlocks::Admit(int row, std::span<const BlockId> prefix, const BlockPromise& total) {
  Sequence& sequence = sequences_[row];
  for (const BlockId block : prefix) pool_.AddReference(block);
  std::ranges::copy(prefix, sequences_.block_table(row));
  const int num_blocks = static_cast<int>(prefix.size());
  sequence.num_blocks = num_blocks;
  sequence.num_registered_blocks = num_blocks;
  sequence.chain = prefix.empty() ? kChainRoot : cache_.node(prefix.back());
  sequence.promised_blocks = total.promised - num_blocks;
  sequence.reserved_blocks = total.reserved;
  promised_ += sequence.promised_blocks;
  reserved_ += sequence.reserved_blocks;
}

void SequenceBlocks::Grow(int row, int num_blocks) {
  Sequence& sequence = sequences_[row];
  BlockId* const table = sequences_.block_table(row);
  while (sequence.num_blocks < num_blocks) {
    if (sequence.promised_blocks > 0) {
      --sequence.promised_blocks;
      --promised_;
    } else if (sequence.reserved_blocks > 0) {
      --sequence.reserved_blocks;
      --reserved_;
    }
    table[sequence.num_blocks++] = cache_.Allocate();
  }
}

TokenId SequenceBlocks::ReadToken(int row, int position) const {
  return tokens_.of(sequences_.blocks(row)[position >> block_shift_])[position & (block_size_ - 1)];
}

void SequenceBlocks::RegisterFull(int row, const Request& request) {
  if (!registers_) return;
  Sequence& sequence = sequences_[row];
  const int num_full = sequence.committed_length >> block_shift_;
  while (sequence.num_registered_blocks < num_full) {
    const int index = sequence.num_registered_blocks++;
    const BlockId block = sequences_.blocks(row)[index];
    const int first = index * block_size_;
    const int num_known = std::clamp(sequence.num_known - first, 0, block_size_);
    std::copy_n(request.known.begin() + (num_known > 0 ? first : 0), num_known,
                tokens_.of(block).begin());
    sequence.chain = cache_.Register(sequence.chain, block,
                                     SpanOfBlock(request.salts, index, block_size_).written);
  }
}

void SequenceBlocks::StopGrowing(int row) {
  Sequence& sequence = sequences_[row];
  promised_ -= sequence.promised_blocks;
  reserved_ -= sequence.reserved_blocks;
  sequence.promised_blocks = 0;
  sequence.reserved_blocks = 0;
  for (const BlockId block : sequences_.blocks(row)) {
    sequence.release_estimate += pool_.references(block) == 1;
  }
  coming_room_ += sequence.release_estimate;
}

void SequenceBlocks::Release(int row) {
  Sequence& sequence = sequences_[row];
  const auto blocks = sequences_.blocks(row);
  for (std::size_t i = blocks.size(); i-- > 0;) cache_.Release(blocks[i]);
  coming_room_ -= sequence.release_estimate;
  sequence.release_estimate = 0;
  sequence.num_blocks = 0;
  ++num_releases_;
}

absl::Status SequenceBlocks::CheckInvariants() const {
  if (absl::Status status = pool_.CheckInvariants(); !status.ok()) return status;
  if (absl::Status status = cache_.CheckInvariants(); !status.ok()) return status;
  std::vector<int> references(pool_.num_blocks());
  int promised = 0;
  int reserved = 0;
  int coming = 0;
  for (int row = 0; row < sequences_.num_rows(); ++row) {
    const Sequence& sequence = sequences_[row];
    if (sequence.stage == SequenceStage::kUnused) continue;
    promised += sequence.promised_blocks;
    reserved += sequence.reserved_blocks;
    coming += sequence.release_estimate;
    if (sequence.num_blocks * block_size_ < sequence.context_length) {
      return absl::InternalError(absl::StrCat("sequence ", row, " has ", sequence.num_blocks,
                                              " blocks for ", sequence.context_length, " tokens"));
    }
    for (const BlockId block : sequences_.blocks(row)) {
      if (IndexOf(block) < 0 || IndexOf(block) >= pool_.num_blocks()) {
        return absl::InternalError(absl::StrCat("sequence ", row, " names no block"));
      }
      ++references[IndexOf(block)];
    }
  }
  for (int i = 0; i < pool_.num_blocks(); ++i) {
    if (references[i] != std::max(0, pool_.references(BlockId{i}))) {
      return absl::InternalError(absl::StrCat("block ", i, " has ", pool_.references(BlockId{i}),
                                              " references; sequences name it ", references[i],
                                              " times"));
    }
  }
  if (promised != promised_ || reserved != reserved_ || coming != coming_room_) {
    return absl::InternalError(absl::StrCat("promised ", promised_, ", rows ", promised,
                                            "; reserved ", reserved_, ", rows ", reserved,
                                            "; coming ", coming_room_, ", rows ", coming));
  }
  if (room_to_grow() < 0) {
    return absl::InternalError(absl::StrCat(promised_, " blocks are promised and only ",
                                            pool_.num_available(), " available"));
  }
  return absl::OkStatus();
}

}  // namespace thresher
