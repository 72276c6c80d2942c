#include "engine/attention/evaluate/block_list_judge.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "engine/attention/evaluate/block_removal.h"
#include "kernels/ops/kv_selection.h"

namespace thresher {
namespace {

constexpr int kLayerStep = 4, kFirstLayer = 3;
constexpr int kRowStep = 32;  // the last row of a block is one of its four

float Widen(const TensorView& tensor, std::int64_t index) {
  if (tensor.dtype == DType::kF32) return tensor.as<float>()[index];
  const std::uint32_t bits = tensor.as<std::uint16_t>()[index];
  return std::bit_cast<float>(bits << 16);
}

// The share of the `count` largest of `error`, the own block apart, that the list has.
double RecallOf(std::span<const double> error, std::span<const std::uint16_t> list) {
  std::vector<int> order(error.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return error[a] > error[b]; });
  int found = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    found += std::binary_search(list.begin(), list.end(), order[i]) ? 1 : 0;
  }
  return static_cast<double>(found) / static_cast<double>(list.size());
}

// Of the output of the blocks of the list alone, against the dense one.
double OutputError(const BlockRemoval& removal, std::span<const std::uint16_t> list, double mass) {
  const std::size_t dim = removal.output.size();
  double difference = 0, size = 0;
  for (std::size_t d = 0; d < dim; ++d) {
    double element = 0;
    for (const std::size_t block : list) element += removal.partial[block * dim + d];
    const double change = element / mass - removal.output[d];
    difference += change * change;
    size += removal.output[d] * removal.output[d];
  }
  return size > 0 ? std::sqrt(difference / size) : 0;
}

}  // namespace

absl::Status BlockListJudge::Observe(int layer_index, const AttentionPlan& plan,
                                     const AttentionLayer& layer, const BlockSelection& selection) {
  if (layer_index % kLayerStep != kFirstLayer) return absl::OkStatus();
  const DType kv_dtype = layer.cache.k.dtype;
  if (kv_dtype != DType::kF32 && kv_dtype != DType::kBF16) {
    return absl::UnimplementedError(absl::StrCat(
        "lists of blocks are judged with an f32 or bf16 cache, not ", std::string(Name(kv_dtype))));
  }
  const AttentionBatch& batch = plan.batch;
  const int group_size = batch.num_heads / batch.num_kv_heads;
  for (int s = 0; s < batch.num_sequences(); ++s) {
    const int context = batch.context_length[s];
    const int end = context + batch.query_start[s + 1] - batch.query_start[s];
    const int first_block = context / kSelectionBlock;
    for (int head = 0; head < batch.num_heads; ++head) {
      if (head % group_size == 0) WidenHead(plan, layer, s, head / group_size);
      for (int own = first_block; own * kSelectionBlock < end; ++own) {
        const std::int64_t at =
            std::int64_t{selection.lists.query_block_start[s] + own - first_block} *
                batch.num_heads +
            head;
        const std::int32_t length = selection.lists.list_length[at];
        if (length == kAllBlocks) continue;
        Judge(
            plan, layer, s,
            {.blocks = {selection.lists.blocks + at * selection.lists.capacity,
                        static_cast<std::size_t>(length)},
             .scores = selection.scores == nullptr ? nullptr
                                                   : selection.scores + at * selection.score_stride,
             .own = own,
             .head = head,
             .first_query = std::max(context, own * kSelectionBlock) - context,
             .end_query = std::min(end, (own + 1) * kSelectionBlock) - context});
      }
    }
  }
  return absl::OkStatus();
}

void BlockListJudge::WidenHead(const AttentionPlan& plan, const AttentionLayer& layer, int sequence,
                               int kv_head) {
  const AttentionBatch& batch = plan.batch;
  const int num_keys = batch.context_length[sequence] + batch.query_start[sequence + 1] -
                       batch.query_start[sequence];
  const std::size_t num_elements =
      static_cast<std::size_t>(num_keys) * static_cast<std::size_t>(batch.head_dim);
  k_.resize(num_elements);
  v_.resize(num_elements);
  const std::int32_t* table = batch.block_tables.data() + batch.block_table_start[sequence];
  for (int key = 0; key < num_keys; ++key) {
    const std::int64_t slot =
        (std::int64_t{table[key / batch.block_size]} * batch.num_kv_heads + kv_head) *
            batch.block_size +
        key % batch.block_size;
    for (int d = 0; d < batch.head_dim; ++d) {
      const std::int64_t to = std::int64_t{key} * batch.head_dim + d;
      k_[static_cast<std::size_t>(to)] = Widen(layer.cache.k, slot * batch.head_dim + d);
      v_[static_cast<std::size_t>(to)] = Widen(layer.cache.v, slot * batch.head_dim + d);
    }
  }
}

void BlockListJudge::Judge(const AttentionPlan& plan, const AttentionLayer& layer, int sequence,
                           const List& list) {
  const AttentionBatch& batch = plan.batch;
  const auto dim = static_cast<std::size_t>(batch.head_dim);
  const auto num_others = static_cast<std::size_t>(list.own);
  std::vector<double> error(num_others, 0);
  for (int query = list.end_query - 1; query >= list.first_query; query -= kRowStep) {
    const std::int64_t row = batch.first_row_of(sequence) + query;
    const float* q =
        layer.q.as<float>() + (row * batch.num_heads + list.head) * static_cast<std::int64_t>(dim);
    const auto num_keys = static_cast<std::size_t>(batch.context_length[sequence]) +
                          static_cast<std::size_t>(query) + 1;
    scores_.resize(num_keys);
    for (std::size_t key = 0; key < num_keys; ++key) {
      double score = 0;
      for (std::size_t d = 0; d < dim; ++d) {
        score += static_cast<double>(q[d]) * static_cast<double>(k_[key * dim + d]);
      }
      scores_[key] = score * static_cast<double>(layer.scale);
    }
    const BlockRemoval removal = RemoveEachBlock(scores_, std::span(v_).first(num_keys * dim),
                                                 batch.head_dim, kSelectionBlock);
    for (std::size_t j = 0; j < num_others; ++j) error[j] += removal.error[j];
    double mass = 0;
    for (const std::size_t block : list.blocks) mass += removal.mass[block];
    sums_.mass_recall += mass;
    sums_.output_error += OutputError(removal, list.blocks, mass);
    ++num_rows_;
  }
  ++sums_.num_lists;
  // The queries' own block is read by every list.
  if (list.blocks.size() > 1) {
    sums_.removal_recall += RecallOf(error, list.blocks.first(list.blocks.size() - 1));
  }
  if (list.scores == nullptr || num_others < 2) return;
  const std::vector<double> metric(list.scores, list.scores + num_others);
  tau_sum_ += KendallTau(metric, error);
  ++num_taus_;
}

std::optional<BlockListReading> BlockListJudge::Read() const {
  if (sums_.num_lists == 0) return std::nullopt;
  BlockListReading reading = sums_;
  const auto num_lists = static_cast<double>(sums_.num_lists);
  const auto num_rows = static_cast<double>(num_rows_);
  reading.removal_recall /= num_lists;
  reading.mass_recall /= num_rows;
  reading.output_error /= num_rows;
  if (num_taus_ > 0) reading.kendall_tau = tau_sum_ / static_cast<double>(num_taus_);
  return reading;
}

}  // namespace thresher
