#include "tests/support/reference/paged_attention_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "tests/support/reference/numbers.h"

namespace thresher {
namespace {

int BlocksOf(const PagedSequence& sequence, int block_size) {
  return (sequence.context_length + sequence.query_length + block_size - 1) / block_size;
}

}  // namespace

PagedAttentionCase::PagedAttentionCase(const PagedAttentionShape& shape,
                                       std::vector<PagedSequence> sequences)
    : shape_(shape), sequences_(std::move(sequences)), query_start_{0} {
  for (const PagedSequence& sequence : sequences_) {
    query_start_.push_back(query_start_.back() + sequence.query_length);
    context_length_.push_back(sequence.context_length);
    block_table_start_.push_back(static_cast<std::int32_t>(block_tables_.size()));
    for (int i = 0; i < BlocksOf(sequence, shape.block_size); ++i) {
      block_tables_.push_back(num_blocks_++);
    }
  }
  ++num_blocks_;  // one that no sequence owns
  std::shuffle(block_tables_.begin(), block_tables_.end(), std::mt19937_64(7));

  const std::int64_t elements =
      std::int64_t{num_blocks_} * shape.num_kv_heads * shape.block_size * shape.head_dim;
  k_.resize((elements * SizeOf(shape.kv_dtype) + 3) / 4);
  v_.resize(k_.size());
  for (std::int64_t i = 0; i < elements; ++i) {
    WriteElement(k_.data(), shape.kv_dtype, i, std::numeric_limits<float>::quiet_NaN());
    WriteElement(v_.data(), shape.kv_dtype, i, std::numeric_limits<float>::quiet_NaN());
  }
  for (std::size_t s = 0; s < sequences_.size(); ++s) {
    const PagedSequence& sequence = sequences_[s];
    const int length = sequence.context_length + sequence.query_length;
    const std::int64_t row = std::int64_t{shape.num_kv_heads} * shape.head_dim;
    const std::vector<float> k = NormalValues(length * row, 1.0, 3 * sequence.seed + 1);
    const std::vector<float> v = NormalValues(length * row, 1.0, 3 * sequence.seed + 2);
    for (int position = 0; position < length; ++position) {
      for (int head = 0; head < shape.num_kv_heads; ++head) {
        const std::int64_t to = ElementOf(static_cast<int>(s), head, position);
        const std::int64_t from = position * row + head * shape.head_dim;
        for (int d = 0; d < shape.head_dim; ++d) {
          WriteElement(k_.data(), shape.kv_dtype, to + d, k[from + d]);
          WriteElement(v_.data(), shape.kv_dtype, to + d, v[from + d]);
        }
      }
    }
    // Queries are those of the positions, so that a chunk of a sequence has the whole one's.
    const std::int64_t q_row = std::int64_t{shape.num_heads} * shape.head_dim;
    const std::vector<float> q = NormalValues(length * q_row, 1.5, 3 * sequence.seed + 3);
    q_.insert(q_.end(), q.begin() + sequence.context_length * q_row, q.end());
  }
  if (shape.q_dtype != DType::kF32) {
    for (float& x : q_) x = Bf16ToFloat(FloatToBf16(x));
  }
  UpdateSums();
}

void PagedAttentionCase::UpdateSums() {
  const int dim = shape_.head_dim;
  k_sums_.assign(std::int64_t{num_blocks_} * shape_.num_kv_heads * dim,
                 std::numeric_limits<float>::quiet_NaN());
  v_sums_ = k_sums_;
  for (std::size_t s = 0; s < sequences_.size(); ++s) {
    const int length = sequences_[s].context_length + sequences_[s].query_length;
    for (int position = 0; position < length; ++position) {
      for (int head = 0; head < shape_.num_kv_heads; ++head) {
        const std::int64_t from = ElementOf(static_cast<int>(s), head, position);
        const std::int64_t to = from / (std::int64_t{shape_.block_size} * dim) * dim;
        for (int d = 0; d < dim; ++d) {
          if (position % shape_.block_size == 0) k_sums_[to + d] = v_sums_[to + d] = 0;
          k_sums_[to + d] += static_cast<float>(ReadElement(k_.data(), shape_.kv_dtype, from + d));
          v_sums_[to + d] += static_cast<float>(ReadElement(v_.data(), shape_.kv_dtype, from + d));
        }
      }
    }
  }
}

std::vector<double> PagedAttentionCase::Key(int sequence, int kv_head, int position) const {
  std::vector<double> key(shape_.head_dim);
  const std::int64_t from = ElementOf(sequence, kv_head, position);
  for (int d = 0; d < shape_.head_dim; ++d) {
    key[d] = ReadElement(k_.data(), shape_.kv_dtype, from + d);
  }
  return key;
}

std::vector<double> PagedAttentionCase::Value(int sequence, int kv_head, int position) const {
  std::vector<double> value(shape_.head_dim);
  const std::int64_t from = ElementOf(sequence, kv_head, position);
  for (int d = 0; d < shape_.head_dim; ++d) {
    value[d] = ReadElement(v_.data(), shape_.kv_dtype, from + d);
  }
  return value;
}

std::span<float> PagedAttentionCase::Query(std::int64_t row, int head) {
  return std::span(q_).subspan((row * shape_.num_heads + head) * shape_.head_dim, shape_.head_dim);
}

std::span<const float> PagedAttentionCase::Query(std::int64_t row, int head) const {
  return std::span(q_).subspan((row * shape_.num_heads + head) * shape_.head_dim, shape_.head_dim);
}

void PagedAttentionCase::SetKey(int sequence, int kv_head, int position,
                                std::span<const float> key) {
  const std::int64_t to = ElementOf(sequence, kv_head, position);
  for (int d = 0; d < shape_.head_dim; ++d)
    WriteElement(k_.data(), shape_.kv_dtype, to + d, key[d]);
}

void PagedAttentionCase::SetValue(int sequence, int kv_head, int position,
                                  std::span<const float> value) {
  const std::int64_t to = ElementOf(sequence, kv_head, position);
  for (int d = 0; d < shape_.head_dim; ++d) {
    WriteElement(v_.data(), shape_.kv_dtype, to + d, value[d]);
  }
}

std::int64_t PagedAttentionCase::ElementOf(int sequence, int kv_head, int position) const {
  const std::int64_t block =
      block_tables_[block_table_start_[sequence] + position / shape_.block_size];
  return ((block * shape_.num_kv_heads + kv_head) * shape_.block_size +
          position % shape_.block_size) *
         shape_.head_dim;
}

AttentionBatch PagedAttentionCase::Batch() const {
  AttentionBatch batch;
  batch.num_heads = shape_.num_heads;
  batch.num_kv_heads = shape_.num_kv_heads;
  batch.head_dim = shape_.head_dim;
  batch.block_size = shape_.block_size;
  batch.query_start = query_start_;
  batch.context_length = context_length_;
  batch.block_tables = block_tables_;
  batch.block_table_start = block_table_start_;
  return batch;
}

float PagedAttentionCase::scale() const {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape_.head_dim)));
}

std::int64_t PagedAttentionCase::num_cache_bytes() const {
  std::int64_t tokens = 0;
  for (const PagedSequence& sequence : sequences_) {
    tokens += sequence.context_length + sequence.query_length;
  }
  return tokens * 2 * shape_.num_kv_heads * shape_.head_dim * SizeOf(shape_.kv_dtype);
}

KvCacheLayer PagedAttentionCase::Cache() {
  return {TensorView::Of(k_.data(), shape_.kv_dtype, num_blocks_, shape_.num_kv_heads,
                         shape_.block_size, shape_.head_dim),
          TensorView::Of(v_.data(), shape_.kv_dtype, num_blocks_, shape_.num_kv_heads,
                         shape_.block_size, shape_.head_dim),
          TensorView::Of(k_sums_.data(), DType::kF32, num_blocks_, shape_.num_kv_heads,
                         shape_.head_dim),
          TensorView::Of(v_sums_.data(), DType::kF32, num_blocks_, shape_.num_kv_heads,
                         shape_.head_dim)};
}

AttentionLayer PagedAttentionCase::Layer(void* out) {
  AttentionLayer layer;
  void* q = q_.data();
  if (shape_.q_dtype != DType::kF32) {
    narrow_q_.resize(q_.size());
    std::transform(q_.begin(), q_.end(), narrow_q_.begin(), FloatToBf16);
    q = narrow_q_.data();
  }
  layer.q = TensorView::Of(q, shape_.q_dtype, num_tokens(), shape_.num_heads, shape_.head_dim);
  layer.cache = Cache();
  layer.scale = scale();
  layer.out =
      TensorView::Of(out, shape_.out_dtype, num_tokens(), shape_.num_heads, shape_.head_dim);
  return layer;
}

absl::StatusOr<std::vector<float>> PagedAttentionCase::Run(const AttentionKernel& kernel,
                                                           Backend& backend,
                                                           const KvSelection& selection,
                                                           std::span<ThresholdCounts> counts,
                                                           std::span<std::int32_t> survivors) {
  absl::StatusOr<std::unique_ptr<Stream>> stream = backend.device().CreateStream();
  if (!stream.ok()) return stream.status();
  absl::StatusOr<DeviceBuffer> workspace =
      backend.device().Allocate(kernel.WorkspaceBytes(Batch()));
  if (!workspace.ok()) return workspace.status();
  AttentionPlan plan;
  absl::Status status = kernel.Plan(Batch(), *workspace, **stream, plan);
  if (!status.ok()) return status;
  std::vector<std::uint32_t> storage(q_.size());
  AttentionLayer layer = Layer(storage.data());
  layer.counts = counts.empty() ? nullptr : counts.data();
  layer.survivors = survivors.empty() ? nullptr : survivors.data();
  // Twice: the second layer of a step finds the workspace as the first one left it.
  for (int layer_index = 0; layer_index < 2; ++layer_index) {
    std::fill(storage.begin(), storage.end(), 0xffffffffu);
    std::fill(counts.begin(), counts.end(), ThresholdCounts{});
    status = kernel.Run(plan, layer, selection, **stream);
    if (!status.ok()) return status;
  }
  std::vector<float> out(q_.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(
        ReadElement(storage.data(), shape_.out_dtype, static_cast<std::int64_t>(i)));
  }
  return out;
}

// The bound, for one row with n keys, weights w_i (summing to 1) and scores s_i = scale · q·k_i:
//   A score is a sum of head_dim products in f32: its error is at most (head_dim + 3) u S_i, where
//   S_i = scale · Σ|q_d k_id| and u = 2^-24, plus the rounding of s_i − max, u (|s_i| + |max|).
//   bf16 products round q first: 2^-8 S_i more. Let e be the largest of these, plus 3e-7 for the
//   exponential, plus 2^-8 for the rounding of a weight to bf16. Then a weight is off by a factor
//   1 ± e and the quotient Σ w v / Σ w by 2 e A at most, A = Σ w_i |v_i|. Sums of n terms add
//   (n + 64) u A each. e is below 0.1 here, so its square is covered by a factor of 1.1.
//   f16 products round to 2^-11 instead, but below 2^-14 to steps of 2^-24: half of one for each
//   number of q, and for each weight, of which the largest is 1.
void PagedAttentionCase::ReferenceRow(const HeadRows& rows, std::int64_t at, int num_keys,
                                      DType product_type, Reference& reference) const {
  constexpr double u = 0x1p-24;
  const double rounding = product_type == DType::kF32 ? 0 : RoundingOf(product_type);
  const double step = product_type == DType::kF16 ? 0x1p-25 : 0;
  const int dim = shape_.head_dim;
  std::vector<double> weight(num_keys);
  double largest = -std::numeric_limits<double>::infinity();
  for (int i = 0; i < num_keys; ++i) {
    const double* k = rows.k.data() + std::int64_t{i} * dim;
    for (int d = 0; d < dim; ++d) weight[i] += q_[at + d] * k[d];
    weight[i] *= scale();
    largest = std::max(largest, weight[i]);
  }
  double sum = 0, e = 0;
  for (int i = 0; i < num_keys; ++i) {
    const double* k = rows.k.data() + std::int64_t{i} * dim;
    double size = 0, of_key = 0;
    for (int d = 0; d < dim; ++d) {
      size += std::fabs(q_[at + d] * k[d]);
      of_key += std::fabs(k[d]);
    }
    e = std::max(e, (((dim + 3) * u + rounding) * size + step * of_key) * scale() +
                        u * (std::fabs(weight[i]) + std::fabs(largest)));
    weight[i] = std::exp(weight[i] - largest);
    sum += weight[i];
  }
  e += 3e-7 + rounding;
  std::vector<double> magnitude(dim), of_steps(dim);
  for (int i = 0; i < num_keys; ++i) {
    const double* v = rows.v.data() + std::int64_t{i} * dim;
    const double w = weight[i] / sum;
    for (int d = 0; d < dim; ++d) {
      reference.out[at + d] += w * v[d];
      magnitude[d] += w * std::fabs(v[d]);
      of_steps[d] += step / sum * std::fabs(v[d]);
    }
  }
  for (int d = 0; d < dim; ++d) {
    reference.bound[at + d] =
        1.1 * ((2 * e + 2 * (num_keys + 64) * u) * magnitude[d] + 2 * of_steps[d]) +
        1.01 * RoundingOf(shape_.out_dtype) * std::fabs(reference.out[at + d]) + 1e-30;
  }
}

PagedAttentionCase::HeadRows PagedAttentionCase::WidenHead(int sequence, int kv_head) const {
  HeadRows rows;
  const int length = sequences_[sequence].context_length + sequences_[sequence].query_length;
  for (int position = 0; position < length; ++position) {
    const std::int64_t from = ElementOf(sequence, kv_head, position);
    for (int d = 0; d < shape_.head_dim; ++d) {
      rows.k.push_back(ReadElement(k_.data(), shape_.kv_dtype, from + d));
      rows.v.push_back(ReadElement(v_.data(), shape_.kv_dtype, from + d));
    }
  }
  return rows;
}

PagedAttentionCase::Reference PagedAttentionCase::ComputeReference(DType product_type,
                                                                   int query_stride,
                                                                   const Sees& sees) const {
  Reference reference;
  reference.out.resize(q_.size());
  reference.bound.assign(q_.size(), std::numeric_limits<double>::infinity());
  const int group_size = shape_.num_heads / shape_.num_kv_heads;
  for (int s = 0; s < static_cast<int>(sequences_.size()); ++s) {
    for (int kv_head = 0; kv_head < shape_.num_kv_heads; ++kv_head) {
      const HeadRows rows = WidenHead(s, kv_head);
      for (int query = sequences_[s].query_length - 1; query >= 0; query -= query_stride) {
        for (int head = kv_head * group_size; head < (kv_head + 1) * group_size; ++head) {
          const std::int64_t row =
              (query_start_[s] + query) * std::int64_t{shape_.num_heads} + head;
          const int position = sequences_[s].context_length + query;
          if (sees == nullptr) {
            ReferenceRow(rows, row * shape_.head_dim, position + 1, product_type, reference);
            continue;
          }
          HeadRows seen;
          for (int key = 0; key <= position; ++key) {
            if (!sees(s, head, position, key)) continue;
            const std::int64_t from = std::int64_t{key} * shape_.head_dim;
            const auto append = [&](const std::vector<double>& all, std::vector<double>& to) {
              to.insert(to.end(), all.begin() + from, all.begin() + from + shape_.head_dim);
            };
            append(rows.k, seen.k);
            append(rows.v, seen.v);
          }
          const auto num_seen = static_cast<int>(seen.k.size()) / shape_.head_dim;
          ReferenceRow(seen, row * shape_.head_dim, num_seen, product_type, reference);
        }
      }
    }
  }
  return reference;
}

}  // namespace thresher
