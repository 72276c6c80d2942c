#include "engine/model/weight_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace thresher {
namespace {

// Collects one matrix or vector after the other under a common prefix.
class List final {
 public:
  explicit List(std::vector<ExpectedWeight>& weights) : weights_(weights) {}
  void Matrix(std::string name, std::int64_t rows, std::int64_t cols) {
    weights_.push_back({std::move(name), rows, cols, false});
  }
  void Norm(std::string name, std::int64_t size) {
    weights_.push_back({std::move(name), 1, size, true});
  }
  void Linear(const std::string& name, std::int64_t rows, std::int64_t cols, bool bias) {
    Matrix(name + ".weight", rows, cols);
    if (bias) weights_.push_back({name + ".bias", rows, 1, true});
  }

 private:
  std::vector<ExpectedWeight>& weights_;
};

}  // namespace

std::vector<ExpectedWeight> ExpectedWeights(const ModelConfig& config) {
  std::vector<ExpectedWeight> weights;
  List list(weights);
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  const std::int64_t q_rows = std::int64_t{config.num_heads} * config.head_dim;
  const std::int64_t kv_rows = std::int64_t{config.num_kv_heads} * config.head_dim;
  list.Matrix("model.embed_tokens.weight", config.vocab_size, hidden);
  for (int layer = 0; layer < config.num_layers; ++layer) {
    const std::string prefix = absl::StrCat("model.layers.", layer, ".");
    list.Norm(prefix + "input_layernorm.weight", hidden);
    list.Linear(prefix + "self_attn.q_proj", q_rows, hidden, config.qkv_bias);
    list.Linear(prefix + "self_attn.k_proj", kv_rows, hidden, config.qkv_bias);
    list.Linear(prefix + "self_attn.v_proj", kv_rows, hidden, config.qkv_bias);
    if (config.qk_norm) {
      list.Norm(prefix + "self_attn.q_norm.weight", config.head_dim);
      list.Norm(prefix + "self_attn.k_norm.weight", config.head_dim);
    }
    list.Linear(prefix + "self_attn.o_proj", hidden, q_rows, config.output_bias);
    list.Norm(prefix + "post_attention_layernorm.weight", hidden);
    list.Linear(prefix + "mlp.gate_proj", inner, hidden, config.mlp_bias);
    list.Linear(prefix + "mlp.up_proj", inner, hidden, config.mlp_bias);
    list.Linear(prefix + "mlp.down_proj", hidden, inner, config.mlp_bias);
  }
  list.Norm("model.norm.weight", hidden);
  if (!config.tied_embeddings) list.Matrix("lm_head.weight", config.vocab_size, hidden);
  return weights;
}

absl::Status WeightTable::Add(const ExpectedWeight& expected, const StoredWeight& stored,
                              std::span<const std::int32_t> row_order) {
  const std::vector<std::int64_t> shape =
      expected.is_vector ? std::vector<std::int64_t>{expected.rows * expected.cols}
                         : std::vector<std::int64_t>{expected.rows, expected.cols};
  if (stored.shape != shape) {
    return absl::InvalidArgumentError(
        absl::StrCat("weight '", expected.name, "' has shape [", absl::StrJoin(stored.shape, ", "),
                     "], the configuration asks for [", absl::StrJoin(shape, ", "), "]"));
  }
  // A vector has no use for blocks, and a bias is cut entry by entry.
  if (expected.is_vector && BlockElements(stored.format) != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("weight '", expected.name, "' is a vector in format ",
                     std::string(Name(stored.format)), "; it must be F32, F16 or BF16"));
  }
  sources_[expected.name] = WeightSource{.bytes = stored.bytes,
                                         .format = stored.format,
                                         .rows = expected.rows,
                                         .cols = expected.cols,
                                         .row_order = row_order};
  total_bytes_ += stored.num_bytes;
  return absl::OkStatus();
}

absl::StatusOr<WeightSource> WeightTable::Find(std::string_view name) const {
  const auto found = sources_.find(std::string(name));
  if (found == sources_.end()) {
    return absl::NotFoundError(absl::StrCat("the model has no weight '", std::string(name), "'"));
  }
  return found->second;
}

bool WeightTable::Has(std::string_view name) const { return sources_.contains(std::string(name)); }

}  // namespace thresher
