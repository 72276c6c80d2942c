#include "engine/model/weight_shard.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

absl::Status Share(const char* name, int total, const ModelShard& shard, ShardRange& range) {
  if (total % shard.size != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor parallelism of ", shard.size, " does not divide ", name, ", ", total));
  }
  range.count = total / shard.size;
  range.first = range.count * shard.rank;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelShard> ShardOf(const ModelConfig& config, int rank, int size) {
  ModelShard shard{
      .rank = rank, .size = size, .heads = {}, .kv_heads = {}, .intermediate = {}, .vocab = {}};
  absl::Status status = Share("num_heads", config.num_heads, shard, shard.heads);
  if (status.ok()) status = Share("num_kv_heads", config.num_kv_heads, shard, shard.kv_heads);
  if (status.ok()) {
    status = Share("intermediate_size", config.intermediate_size, shard, shard.intermediate);
  }
  if (!status.ok()) return status;
  shard.vocab.count = (config.vocab_size + size - 1) / size;
  shard.vocab.first = shard.vocab.count * rank;
  return shard;
}

WeightSource RowsOf(const WeightSource& source, ShardRange rows) {
  WeightSource part = source;
  if (!source.row_order.empty()) {
    part.row_order = source.row_order.subspan(static_cast<std::size_t>(rows.first),
                                              static_cast<std::size_t>(rows.count));
    return part;
  }
  const std::int64_t row_bytes =
      source.cols / BlockElements(source.format) * BlockBytes(source.format);
  if (part.generated.has_value()) {
    part.generated->first_row += rows.first;
  } else {
    part.bytes = source.bytes + rows.first * row_bytes;
  }
  part.rows = rows.count;
  return part;
}

WeightSource ColumnsOf(const WeightSource& source, ShardRange columns) {
  WeightSource part = source;
  if (columns.count == source.cols) return part;
  part.first_col = columns.first;
  part.num_cols = columns.count;
  return part;
}

std::vector<std::int32_t> HeadRows(ShardRange vocab, int vocab_size) {
  std::vector<std::int32_t> rows;
  rows.reserve(static_cast<std::size_t>(vocab.count));
  for (std::int64_t i = 0; i < vocab.count; ++i) {
    rows.push_back(static_cast<std::int32_t>(
        std::min<std::int64_t>(vocab.first + i, std::int64_t{vocab_size} - 1)));
  }
  return rows;
}

}  // namespace thresher
