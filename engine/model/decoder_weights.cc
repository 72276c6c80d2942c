#include "engine/model/decoder_weights.h"

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

std::int64_t StoredBytes(const WeightSource& source) {
  return source.rows * source.cols / BlockElements(source.format) * BlockBytes(source.format);
}

// A weight by name, whole or this rank's rows of it.
struct Part {
  std::string name;
  ShardRange rows;  // count 0: all
};

// Takes weights out of the files one after the other; the first error is kept, and what comes after
// it does nothing.
class WeightLoader final {
 public:
  WeightLoader(const ModelFiles& files, Backend& backend, const LoadProgress& progress,
               DecoderWeights& weights)
      : files_(files), backend_(backend), progress_(progress), weights_(weights) {}

  const absl::Status& status() const { return status_; }

  // The parts, stacked along the output features.
  std::unique_ptr<PackedWeight> Stack(std::initializer_list<Part> parts) {
    return Pack(SourcesOf(parts));
  }
  // Some of the input features of one weight.
  std::unique_ptr<PackedWeight> Columns(const std::string& name, ShardRange columns) {
    std::vector<WeightSource> sources = SourcesOf({{name, {}}});
    if (!sources.empty()) sources[0] = ColumnsOf(sources[0], columns);
    return Pack(sources);
  }
  std::unique_ptr<PackedWeight> Rows(const std::string& name,
                                     std::span<const std::int32_t> row_order) {
    std::vector<WeightSource> sources = SourcesOf({{name, {}}});
    if (!sources.empty()) sources[0].row_order = row_order;
    return Pack(sources);
  }
  // A tied one is counted where the head is packed.
  std::unique_ptr<PackedWeight> Embedding(const std::string& name, bool is_tied) {
    const std::int64_t done_before = done_bytes_;
    const std::vector<WeightSource> sources = SourcesOf({{name, {}}});
    if (!status_.ok()) return nullptr;
    if (is_tied) done_bytes_ = done_before;
    return Keep(backend_.ops().PackEmbedding(sources[0]));
  }
  // −1 if `wanted` is false.
  int Vector(bool wanted, std::initializer_list<Part> parts) {
    if (!wanted) return -1;
    const std::vector<WeightSource> sources = SourcesOf(parts);
    return status_.ok() ? weights_.vectors.Add(sources) : -1;
  }
  // After a piece of work: says how far it is and lets go of the pages.
  void EndPiece() {
    files_.ReleasePages();
    if (status_.ok() && progress_) progress_(done_bytes_, files_.total_weight_bytes());
  }
  void UploadVectors() {
    if (status_.ok()) status_ = weights_.vectors.Upload(backend_.device());
    weights_.num_bytes += weights_.vectors.num_bytes();
  }

 private:
  std::vector<WeightSource> SourcesOf(std::initializer_list<Part> parts) {
    std::vector<WeightSource> sources;
    for (const Part& part : parts) {
      if (!status_.ok()) return {};
      absl::StatusOr<WeightSource> source = files_.Weight(part.name);
      if (!source.ok()) {
        status_ = source.status();
        return {};
      }
      done_bytes_ += StoredBytes(*source);
      sources.push_back(part.rows.count == 0 ? *source : RowsOf(*source, part.rows));
    }
    return sources;
  }
  std::unique_ptr<PackedWeight> Pack(const std::vector<WeightSource>& sources) {
    return status_.ok() ? Keep(backend_.ops().PackWeight(sources)) : nullptr;
  }
  std::unique_ptr<PackedWeight> Keep(absl::StatusOr<std::unique_ptr<PackedWeight>> packed) {
    if (!packed.ok()) {
      status_ = packed.status();
      return nullptr;
    }
    weights_.num_bytes += (*packed)->num_bytes();
    return *std::move(packed);
  }

  const ModelFiles& files_;
  Backend& backend_;
  const LoadProgress& progress_;
  DecoderWeights& weights_;
  absl::Status status_;
  std::int64_t done_bytes_ = 0;
};

ShardRange Times(ShardRange range, std::int64_t factor) {
  return {range.first * factor, range.count * factor};
}

DecoderLayerWeights LoadLayer(const ModelConfig& config, const ModelShard& shard, int layer_index,
                              WeightLoader& loader) {
  const std::string prefix = absl::StrCat("model.layers.", layer_index, ".");
  const std::string q = prefix + "self_attn.q_proj", k = prefix + "self_attn.k_proj",
                    v = prefix + "self_attn.v_proj", output = prefix + "self_attn.o_proj";
  const std::string gate = prefix + "mlp.gate_proj", up = prefix + "mlp.up_proj",
                    down = prefix + "mlp.down_proj";
  const ShardRange q_rows = Times(shard.heads, config.head_dim);
  const ShardRange kv_rows = Times(shard.kv_heads, config.head_dim);
  const bool is_first = shard.rank == 0;
  DecoderLayerWeights layer;
  layer.input_norm = loader.Vector(true, {{prefix + "input_layernorm.weight", {}}});
  layer.qkv =
      loader.Stack({{q + ".weight", q_rows}, {k + ".weight", kv_rows}, {v + ".weight", kv_rows}});
  layer.qkv_bias = loader.Vector(
      config.qkv_bias, {{q + ".bias", q_rows}, {k + ".bias", kv_rows}, {v + ".bias", kv_rows}});
  layer.q_norm = loader.Vector(config.qk_norm, {{prefix + "self_attn.q_norm.weight", {}}});
  layer.k_norm = loader.Vector(config.qk_norm, {{prefix + "self_attn.k_norm.weight", {}}});
  layer.output = loader.Columns(output + ".weight", q_rows);
  layer.output_bias = loader.Vector(config.output_bias && is_first, {{output + ".bias", {}}});
  layer.post_attention_norm =
      loader.Vector(true, {{prefix + "post_attention_layernorm.weight", {}}});
  layer.gate_up =
      loader.Stack({{gate + ".weight", shard.intermediate}, {up + ".weight", shard.intermediate}});
  layer.gate_up_bias = loader.Vector(
      config.mlp_bias, {{gate + ".bias", shard.intermediate}, {up + ".bias", shard.intermediate}});
  layer.down = loader.Columns(down + ".weight", shard.intermediate);
  layer.down_bias = loader.Vector(config.mlp_bias && is_first, {{down + ".bias", {}}});
  loader.EndPiece();
  return layer;
}

}  // namespace

absl::StatusOr<DecoderWeights> LoadDecoderWeights(const ModelFiles& files, const ModelShard& shard,
                                                  Backend& backend, const LoadProgress& progress) {
  const ModelConfig& config = files.config();
  DecoderWeights weights;
  WeightLoader loader(files, backend, progress, weights);
  weights.embedding = loader.Embedding("model.embed_tokens.weight", config.tied_embeddings);
  for (int i = 0; i < config.num_layers && loader.status().ok(); ++i) {
    weights.layers.push_back(LoadLayer(config, shard, i, loader));
  }
  weights.final_norm = loader.Vector(true, {{"model.norm.weight", {}}});
  const std::string head = config.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  if (shard.vocab.first + shard.vocab.count <= config.vocab_size) {
    weights.head = loader.Stack({{head, shard.vocab}});
  } else {
    weights.head = loader.Rows(head, HeadRows(shard.vocab, config.vocab_size));
  }
  loader.UploadVectors();
  loader.EndPiece();
  if (!loader.status().ok()) return loader.status();
  return weights;
}

}  // namespace thresher
