#include "engine/model/decoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/decoder_buffers.h"
#include "engine/model/decoder_weights.h"
#include "engine/model/weight_shard.h"

namespace thresher {
namespace {

class Decoder final : public CausalLm {
 public:
  Decoder(const ModelConfig& config, const ModelShard& shard, const CausalLmOptions& options,
          DecoderWeights weights, DecoderBuffers buffers, TransformerOps& ops,
          TensorParallelGroup& group)
      : config_(config),
        shard_(shard),
        options_(options),
        epsilon_(static_cast<float>(config.rms_norm_epsilon)),
        weights_(std::move(weights)),
        buffers_(std::move(buffers)),
        ops_(ops),
        group_(group) {}

  const ModelConfig& config() const override { return config_; }
  int num_local_heads() const override { return static_cast<int>(shard_.heads.count); }
  int num_local_kv_heads() const override { return static_cast<int>(shard_.kv_heads.count); }
  std::int64_t weight_bytes() const override { return weights_.num_bytes; }

  absl::Status Forward(const BatchInputs& inputs, StepAttention& attention,
                       Stream& stream) override;
  absl::Status ComputeLogits(std::span<const std::int32_t> rows, TensorView logits,
                             Stream& stream) override;

 private:
  absl::Status CheckInputs(const BatchInputs& inputs) const;
  absl::Status RunAttention(int layer_index, const BatchInputs& inputs, StepAttention& attention,
                            Stream& stream);
  absl::Status RunMlp(const DecoderLayerWeights& layer, int num_tokens, Stream& stream);
  // branch := x · weightᵀ + bias, summed over the ranks; then hidden += branch and normed := its
  // norm.
  absl::Status EndBranch(TensorView x, const PackedWeight& weight, int bias, int next_norm,
                         Stream& stream);
  TensorView Vector(int index) const { return weights_.vectors.View(index); }

  const ModelConfig config_;
  const ModelShard shard_;
  const CausalLmOptions options_;
  const float epsilon_;
  DecoderWeights weights_;
  DecoderBuffers buffers_;
  TransformerOps& ops_;
  TensorParallelGroup& group_;
  int num_rows_ = 0;  // of the last Forward
};

absl::Status Decoder::CheckInputs(const BatchInputs& inputs) const {
  const std::size_t n = inputs.token_ids.size();
  if (n < 1 || n > static_cast<std::size_t>(options_.max_tokens)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a step of ", n, " rows; the limit is 1 to ", options_.max_tokens));
  }
  if (inputs.positions.size() != n || inputs.slot_mapping.size() != n) {
    return absl::InvalidArgumentError(absl::StrCat("a step of ", n, " token ids has ",
                                                   inputs.positions.size(), " positions and ",
                                                   inputs.slot_mapping.size(), " slots"));
  }
  for (std::size_t i = 0; i < n; ++i) {
    // Below 0 stands a drawn token, which the ops know.
    if (inputs.token_ids[i] >= config_.vocab_size) {
      return absl::InvalidArgumentError(absl::StrCat("token id ", inputs.token_ids[i],
                                                     "; the vocabulary has ", config_.vocab_size));
    }
    if (inputs.positions[i] < 0 || inputs.positions[i] >= options_.max_position) {
      return absl::InvalidArgumentError(absl::StrCat(
          "position ", inputs.positions[i], "; the rotary table has ", options_.max_position));
    }
  }
  return absl::OkStatus();
}

absl::Status Decoder::Forward(const BatchInputs& inputs, StepAttention& attention, Stream& stream) {
  num_rows_ = 0;
  if (absl::Status status = CheckInputs(inputs); !status.ok()) return status;
  const int n = inputs.num_tokens();
  const TensorView hidden = buffers_.hidden.FirstRows(n);
  absl::Status status = ops_.Embed(*weights_.embedding, inputs.token_ids, hidden, stream);
  if (!status.ok()) return status;
  status = ops_.RmsNorm(hidden, Vector(weights_.layers[0].input_norm), epsilon_,
                        buffers_.normed.FirstRows(n), stream);
  if (!status.ok()) return status;
  for (int i = 0; i < config_.num_layers; ++i) {
    const DecoderLayerWeights& layer = weights_.layers[static_cast<std::size_t>(i)];
    if (status = RunAttention(i, inputs, attention, stream); !status.ok()) return status;
    status = EndBranch(TensorView::Of(buffers_.attention.data, buffers_.attention.dtype, n,
                                      shard_.heads.count * config_.head_dim),
                       *layer.output, layer.output_bias, layer.post_attention_norm, stream);
    if (!status.ok()) return status;
    if (status = RunMlp(layer, n, stream); !status.ok()) return status;
    const int next_norm = i + 1 < config_.num_layers
                              ? weights_.layers[static_cast<std::size_t>(i) + 1].input_norm
                              : weights_.final_norm;
    status = EndBranch(buffers_.activation.FirstRows(n), *layer.down, layer.down_bias, next_norm,
                       stream);
    if (!status.ok()) return status;
  }
  num_rows_ = n;
  return absl::OkStatus();
}

absl::Status Decoder::RunAttention(int layer_index, const BatchInputs& inputs,
                                   StepAttention& attention, Stream& stream) {
  const int n = inputs.num_tokens();
  const DecoderLayerWeights& layer = weights_.layers[static_cast<std::size_t>(layer_index)];
  const TensorView qkv = buffers_.qkv.FirstRows(n);
  absl::Status status =
      ops_.MatMul(buffers_.normed.FirstRows(n), *layer.qkv, Vector(layer.qkv_bias), qkv, stream);
  if (!status.ok()) return status;
  const QkvShape shape{.num_heads = num_local_heads(),
                       .num_kv_heads = num_local_kv_heads(),
                       .head_dim = config_.head_dim};
  const QkNorm norm{
      .q_weight = Vector(layer.q_norm), .k_weight = Vector(layer.k_norm), .epsilon = epsilon_};
  const RotaryTable rotary{.cos_sin = buffers_.cos_sin, .rotary_dim = config_.rope.rotary_dim};
  const TensorView q = buffers_.q.FirstRows(n);
  status = ops_.RotateAndAppend(qkv, shape, norm, rotary, inputs.positions, inputs.slot_mapping, q,
                                attention.CacheOf(layer_index), stream);
  if (!status.ok()) return status;
  return attention.Run(layer_index, q, buffers_.attention.FirstRows(n), stream);
}

absl::Status Decoder::RunMlp(const DecoderLayerWeights& layer, int num_tokens, Stream& stream) {
  const TensorView gate_up = buffers_.gate_up.FirstRows(num_tokens);
  absl::Status status = ops_.MatMul(buffers_.normed.FirstRows(num_tokens), *layer.gate_up,
                                    Vector(layer.gate_up_bias), gate_up, stream);
  if (!status.ok()) return status;
  return ops_.SiluMul(gate_up, buffers_.activation.FirstRows(num_tokens), stream);
}

absl::Status Decoder::EndBranch(TensorView x, const PackedWeight& weight, int bias, int next_norm,
                                Stream& stream) {
  const std::int64_t n = x.shape[0];
  const TensorView branch = buffers_.branch.FirstRows(n);
  absl::Status status = ops_.MatMul(x, weight, Vector(bias), branch, stream);
  if (!status.ok()) return status;
  if (status = group_.AllReduceSum(branch, stream); !status.ok()) return status;
  return ops_.AddRmsNorm(branch, buffers_.hidden.FirstRows(n), Vector(next_norm), epsilon_,
                         buffers_.normed.FirstRows(n), stream);
}

absl::Status Decoder::ComputeLogits(std::span<const std::int32_t> rows, TensorView logits,
                                    Stream& stream) {
  const auto n = static_cast<std::int64_t>(rows.size());
  if (n < 1 || n > options_.max_logit_rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("logits of ", n, " rows; the limit is 1 to ", options_.max_logit_rows));
  }
  for (const std::int32_t row : rows) {
    if (row < 0 || row >= num_rows_) {
      return absl::InvalidArgumentError(
          absl::StrCat("logits of row ", row, "; the last step had ", num_rows_));
    }
  }
  if (logits.dtype != DType::kF32 || logits.rank != 2 || logits.shape[0] != n ||
      logits.shape[1] != config_.vocab_size) {
    return absl::InvalidArgumentError(absl::StrCat("logits are ", ToString(logits), ", not f32[", n,
                                                   ", ", config_.vocab_size, "]"));
  }
  // The norm is taken again here, from the residual of the asked rows alone: what a GEMM reads may
  // be bf16, and rows are gathered in f32.
  const TensorView gathered = buffers_.rows.FirstRows(n);
  const TensorView normed = buffers_.rows_normed.FirstRows(n);
  absl::Status status =
      ops_.GatherRows(buffers_.hidden.FirstRows(num_rows_), rows, gathered, stream);
  if (!status.ok()) return status;
  status = ops_.RmsNorm(gathered, Vector(weights_.final_norm), epsilon_, normed, stream);
  if (!status.ok()) return status;
  if (shard_.size == 1) return ops_.MatMul(normed, *weights_.head, {}, logits, stream);

  const TensorView local = buffers_.local_logits.FirstRows(n);
  if (status = ops_.MatMul(normed, *weights_.head, {}, local, stream); !status.ok()) return status;
  if (buffers_.padded_logits.data == nullptr) {
    return group_.AllGatherColumns(local, logits, stream);
  }
  const TensorView padded = buffers_.padded_logits.FirstRows(n);
  if (status = group_.AllGatherColumns(local, padded, stream); !status.ok()) return status;
  // Row by row, since a row of the one is longer than a row of the other.
  constexpr std::int32_t kFirst[] = {0};
  for (std::int64_t i = 0; i < n; ++i) {
    const TensorView from = TensorView::Of(padded.as<float>() + i * padded.shape[1], DType::kF32, 1,
                                           config_.vocab_size);
    const TensorView to = TensorView::Of(logits.as<float>() + i * config_.vocab_size, DType::kF32,
                                         1, config_.vocab_size);
    if (status = ops_.GatherRows(from, kFirst, to, stream); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const CausalLmOptions& options, const ModelConfig& config) {
  if (options.max_tokens < 1) return absl::InvalidArgumentError("max_tokens must be positive");
  if (options.max_logit_rows < 1) {
    return absl::InvalidArgumentError("max_logit_rows must be positive");
  }
  if (options.max_position < 1 || options.max_position > config.max_position) {
    return absl::InvalidArgumentError(absl::StrCat("max_position is ", options.max_position,
                                                   "; the model has 1 to ", config.max_position));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CausalLm>> LoadDecoder(const ModelFiles& files, Backend& backend,
                                                      TensorParallelGroup& group,
                                                      const CausalLmOptions& options,
                                                      const LoadProgress& progress) {
  const ModelConfig& config = files.config();
  if (absl::Status status = CheckOptions(options, config); !status.ok()) return status;
  absl::StatusOr<ModelShard> shard = ShardOf(config, group.rank(), group.size());
  if (!shard.ok()) return shard.status();
  absl::StatusOr<DecoderWeights> weights = LoadDecoderWeights(files, *shard, backend, progress);
  if (!weights.ok()) return weights.status();
  absl::StatusOr<DecoderBuffers> buffers = AllocateDecoderBuffers(config, *shard, options, backend);
  if (!buffers.ok()) return buffers.status();
  if (absl::Status status =
          backend.ops().Reserve(std::max(options.max_tokens, options.max_logit_rows));
      !status.ok()) {
    return status;
  }
  return std::make_unique<Decoder>(config, *shard, options, *std::move(weights),
                                   *std::move(buffers), backend.ops(), group);
}

}  // namespace thresher
