// Inner loops of block scores, which exist once for each instruction set.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention_unit.h"

namespace thresher {

// The queries of one head in one block of kListedBlock positions that the step holds.
struct BlockQueries {
  const float* q = nullptr;     // the first one's row; the next is row_stride floats further on
  std::int64_t row_stride = 0;  // elements
  int first_offset = 0;         // of the first one in its block
  int num_queries = 0;
};

// Pure functions, closed files; a result depends on nothing but its own inputs, bit by bit. `unit`
// gives the cache of one sequence and KV head; stride divides kListedBlock.
struct BlockScoreLoops {
  // sums [stride, head_dim] bf16 of a whole block of keys from first_key on: segment t is the sum
  // of the keys whose offset is stride − 1 − t modulo stride.
  // Meanwhile fetches the rows that are read next: the block's values, or the first num_ahead keys
  // of the next block.
  void (*key_sums)(const AttentionUnit& unit, int first_key, int stride, bool then_values,
                   int num_ahead, std::uint16_t* sums);
  // sums [stride, head_dim]: segment t is the sum of the queries whose offset is t modulo stride.
  void (*query_sums)(const BlockQueries& queries, int head_dim, int stride, float* sums);
  // scores[h · score_stride + j] = factor · ⟨query_sums[h], key_sums[j]⟩, vectors of `length`, a
  // multiple of 64.
  void (*products)(const float* query_sums, int num_heads, const std::uint16_t* key_sums,
                   int num_blocks, int length, float factor, float* scores,
                   std::int64_t score_stride);
  // squares[i] = |v − centre|² of num_keys (a multiple of 8) values of a block from first_key on;
  // centre null: 0. Meanwhile fetches num_ahead keys of the next block.
  void (*value_squares)(const AttentionUnit& unit, int first_key, int num_keys, const float* centre,
                        int num_ahead, float* squares);
  // Softmax sums of one block of num_keys keys (whole groups of `stride`) for each group of
  // `stride` queries: the group score is the mean of q·k · unit.scale over the pairs of a query at
  // t and a key at stride − 1 − t in their groups. largest[a · result_stride] is the maximum over
  // the block's groups of keys, sum[…] the sum of exp(score − largest). `own`: the queries' own
  // block, of which group a sees groups 0 to a. Groups without queries are left alone. scratch:
  // kListedBlock · head_dim floats.
  void (*group_sums)(const AttentionUnit& unit, const BlockQueries& queries, int stride,
                     int first_key, int num_keys, bool own, float* scratch, float* largest,
                     float* sum, std::int64_t result_stride);
};

const BlockScoreLoops& BlockScoreLoopsAvx2();
const BlockScoreLoops& BlockScoreLoopsAvx512();

}  // namespace thresher
