// Which part of each weight a rank of a tensor-parallel group holds.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model_config.h"
#include "kernels/ops/packed_weight.h"

namespace thresher {

// A rank's share of a dimension, in its units: heads, rows or columns.
struct ShardRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// What one rank of `size` holds of a model.
struct ModelShard {
  int rank = 0;
  int size = 1;
  ShardRange heads;
  ShardRange kv_heads;
  ShardRange intermediate;
  // Rows of the output head. Each rank has as many, so those of the last may reach past the
  // vocabulary; see HeadRows.
  ShardRange vocab;
};

// InvalidArgument if heads, KV heads or the intermediate size do not divide by `size`, naming the
// number.
absl::StatusOr<ModelShard> ShardOf(const ModelConfig& config, int rank, int size);

// The rows (output features) of a range; borrows what `source` borrows.
WeightSource RowsOf(const WeightSource& source, ShardRange rows);
// The columns (input features) of a range.
WeightSource ColumnsOf(const WeightSource& source, ShardRange columns);
// Row numbers of a rank's share of the output head, the last row repeated where the share reaches
// past the vocabulary: every rank then gives equally many logits, and the surplus is cut off.
std::vector<std::int32_t> HeadRows(ShardRange vocab, int vocab_size);

}  // namespace thresher
