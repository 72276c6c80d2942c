// A batch of queries over a paged cache with seeded contents, what a kernel makes of it, and what
// the double reference makes of it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace thresher {

struct PagedSequence {
  int context_length = 0;
  int query_length = 0;
  std::uint64_t seed = 0;  // of the sequence's contents: equal seeds, equal sequences
};

struct PagedAttentionShape {
  int num_heads = 1;
  int num_kv_heads = 1;
  int head_dim = 64;
  int block_size = 16;
  DType kv_dtype = DType::kBF16;
  DType out_dtype = DType::kF32;
  DType q_dtype = DType::kF32;  // f32 or bf16, to which the queries are then rounded
};

// Blocks lie in shuffled order. Slots that no token has written hold NaN, and so do the sums of
// blocks without tokens, so that a kernel that lets one through shows it.
class PagedAttentionCase final {
 public:
  PagedAttentionCase(const PagedAttentionShape& shape, std::vector<PagedSequence> sequences);

  AttentionBatch Batch() const;
  float scale() const;
  const std::vector<PagedSequence>& sequences() const { return sequences_; }
  const PagedAttentionShape& shape() const { return shape_; }
  std::int64_t num_tokens() const { return query_start_.back(); }
  // Rows [query_start[s], …) of the output belong to sequence s.
  std::int64_t query_start(int sequence) const { return query_start_[sequence]; }
  // Bytes of K and V that the queries see, each key counted once for a sequence.
  std::int64_t num_cache_bytes() const;
  KvCacheLayer Cache();
  // The case's queries, cache and scale; `out` [num_tokens, num_heads, head_dim] of the shape's
  // dtype is the caller's.
  AttentionLayer Layer(void* out);

  // A key, value or query of a position that the case holds, [head_dim]. Queries are those of the
  // batch, row [num_tokens].
  std::vector<double> Key(int sequence, int kv_head, int position) const;
  std::vector<double> Value(int sequence, int kv_head, int position) const;
  std::span<float> Query(std::int64_t row, int head);
  std::span<const float> Query(std::int64_t row, int head) const;
  void SetKey(int sequence, int kv_head, int position, std::span<const float> key);
  // The sums stay as they are until UpdateSums, so that a value can be spoilt behind them.
  void SetValue(int sequence, int kv_head, int position, std::span<const float> value);
  void UpdateSums();

  // The kernel's output as [num_tokens, num_heads, head_dim], widened to f32 if it was bf16.
  // `counts` [num_tokens, num_kv_heads] and `survivors` [num_tokens, num_heads] if not empty.
  absl::StatusOr<std::vector<float>> Run(const AttentionKernel& kernel, Backend& backend,
                                         const KvSelection& selection = SelectAll{},
                                         std::span<ThresholdCounts> counts = {},
                                         std::span<std::int32_t> survivors = {});

  struct Reference {
    std::vector<double> out;    // [num_tokens, num_heads, head_dim]
    std::vector<double> bound;  // the same shape: largest allowed difference, see the .cc
  };
  // `product_type`: the kernel may round queries and weights to it; f32: it does not. Only every
  // `query_stride`-th query of a sequence, from its last one backwards, is computed; the others'
  // bounds are infinite. `sees` tells which of the keys up to the query's own position the row
  // reads; null: all.
  using Sees = std::function<bool(int sequence, int head, int query_position, int key_position)>;
  Reference ComputeReference(DType product_type, int query_stride = 1,
                             const Sees& sees = nullptr) const;

 private:
  // Keys and values of one head of a sequence, [sequence length, head_dim].
  struct HeadRows {
    std::vector<double> k;
    std::vector<double> v;
  };
  HeadRows WidenHead(int sequence, int kv_head) const;
  // Fills the reference's row that starts at element `at` and reads the rows' first num_keys.
  void ReferenceRow(const HeadRows& rows, std::int64_t at, int num_keys, DType product_type,
                    Reference& reference) const;
  std::int64_t ElementOf(int sequence, int kv_head, int position) const;

  PagedAttentionShape shape_;
  std::vector<PagedSequence> sequences_;
  std::vector<std::int32_t> query_start_;
  std::vector<std::int32_t> context_length_;
  std::vector<std::int32_t> block_tables_;
  std::vector<std::int32_t> block_table_start_;
  int num_blocks_ = 0;
  std::vector<float> q_;                 // of the shape's q_dtype, widened
  std::vector<std::uint16_t> narrow_q_;  // what kernels get if that is bf16
  std::vector<std::uint32_t> k_;         // storage of any dtype
  std::vector<std::uint32_t> v_;
  std::vector<float> k_sums_;  // [num_blocks, num_kv_heads, head_dim]
  std::vector<float> v_sums_;
};

}  // namespace thresher
