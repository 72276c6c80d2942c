#include "tests/support/reference/reference_decoder.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "engine/model/rotary_frequencies.h"
#include "tests/support/reference/dequantize.h"

namespace thresher::testing {
namespace {

using Matrix = std::vector<double>;  // row-major; its width is known from context

class Reference final {
 public:
  Reference(const ModelFiles& files, std::span<const TokenId> ids)
      : files_(files),
        config_(files.config()),
        ids_(ids),
        n_(ids.size()),
        rope_(ComputeRotaryFrequencies(config_.rope, config_.max_position)) {}

  absl::StatusOr<Matrix> Logits() {
    const std::size_t hidden = static_cast<std::size_t>(config_.hidden_size);
    const Matrix embedding = Load("model.embed_tokens.weight");
    if (!status_.ok()) return status_;
    for (const TokenId id : ids_) {
      const auto row = embedding.begin() + id * config_.hidden_size;
      x_.insert(x_.end(), row, row + config_.hidden_size);
    }
    for (int i = 0; i < config_.num_layers && status_.ok(); ++i) {
      Layer("model.layers." + std::to_string(i) + ".");
    }
    const Matrix normed = Norm(x_, Load("model.norm.weight"), hidden);
    return Product(normed, hidden, config_.tied_embeddings ? "model.embed_tokens" : "lm_head",
                   false);
  }

 private:
  Matrix Load(const std::string& name) {
    absl::StatusOr<WeightSource> source = files_.Weight(name);
    if (!source.ok()) {
      status_ = source.status();
      return {};
    }
    return Dequantize(*source);
  }

  Matrix Norm(const Matrix& x, const Matrix& weight, std::size_t width) const {
    Matrix out(x.size());
    for (std::size_t row = 0; row + width <= x.size(); row += width) {
      double sum = 0;
      for (std::size_t i = 0; i < width; ++i) sum += x[row + i] * x[row + i];
      const double scale =
          1 / std::sqrt(sum / static_cast<double>(width) + config_.rms_norm_epsilon);
      for (std::size_t i = 0; i < width && i < weight.size(); ++i) {
        out[row + i] = x[row + i] * scale * weight[i];
      }
    }
    return out;
  }

  Matrix Product(const Matrix& x, std::size_t width, const std::string& name, bool has_bias) {
    const Matrix weight = Load(name + ".weight");
    const Matrix bias = has_bias ? Load(name + ".bias") : Matrix();
    const std::size_t outputs = weight.size() / width;
    Matrix out(x.size() / width * outputs);
    for (std::size_t row = 0; row < x.size() / width; ++row) {
      for (std::size_t o = 0; o < outputs; ++o) {
        double sum = bias.empty() ? 0 : bias[o];
        for (std::size_t i = 0; i < width; ++i) sum += x[row * width + i] * weight[o * width + i];
        out[row * outputs + o] = sum;
      }
    }
    return out;
  }

  void Rotate(Matrix& heads, int num_heads) const {
    const std::size_t dim = static_cast<std::size_t>(config_.head_dim), half = dim / 2;
    for (std::size_t i = 0; i < heads.size() / dim; ++i) {
      const std::size_t position = i / static_cast<std::size_t>(num_heads);
      double* head = heads.data() + i * dim;
      for (std::size_t pair = 0; pair < half; ++pair) {
        const double angle = static_cast<double>(position) * rope_.radians_per_position[pair];
        const double c = std::cos(angle) * rope_.attention_factor;
        const double s = std::sin(angle) * rope_.attention_factor;
        const double first = head[pair], second = head[half + pair];
        head[pair] = first * c - second * s;
        head[half + pair] = second * c + first * s;
      }
    }
  }

  Matrix Attend(const Matrix& q, const Matrix& k, const Matrix& v) const {
    const std::size_t dim = static_cast<std::size_t>(config_.head_dim);
    const std::size_t heads = static_cast<std::size_t>(config_.num_heads);
    const std::size_t kv_heads = static_cast<std::size_t>(config_.num_kv_heads);
    Matrix out(q.size());
    std::vector<double> weights(n_);
    for (std::size_t row = 0; row < n_; ++row) {
      for (std::size_t head = 0; head < heads; ++head) {
        const double* query = q.data() + (row * heads + head) * dim;
        const std::size_t kv_head = head / (heads / kv_heads);
        double largest = -INFINITY, total = 0;
        for (std::size_t key = 0; key <= row; ++key) {
          double score = 0;
          for (std::size_t i = 0; i < dim; ++i) {
            score += query[i] * k[(key * kv_heads + kv_head) * dim + i];
          }
          weights[key] = score / std::sqrt(static_cast<double>(dim));
          largest = std::max(largest, weights[key]);
        }
        for (std::size_t key = 0; key <= row; ++key) {
          weights[key] = std::exp(weights[key] - largest);
          total += weights[key];
        }
        for (std::size_t key = 0; key <= row; ++key) {
          for (std::size_t i = 0; i < dim; ++i) {
            out[(row * heads + head) * dim + i] +=
                weights[key] / total * v[(key * kv_heads + kv_head) * dim + i];
          }
        }
      }
    }
    return out;
  }

  void Layer(const std::string& prefix) {
    const std::size_t hidden = static_cast<std::size_t>(config_.hidden_size);
    const std::size_t dim = static_cast<std::size_t>(config_.head_dim);
    const Matrix attention_in = Norm(x_, Load(prefix + "input_layernorm.weight"), hidden);
    Matrix q = Product(attention_in, hidden, prefix + "self_attn.q_proj", config_.qkv_bias);
    Matrix k = Product(attention_in, hidden, prefix + "self_attn.k_proj", config_.qkv_bias);
    const Matrix v = Product(attention_in, hidden, prefix + "self_attn.v_proj", config_.qkv_bias);
    if (config_.qk_norm) {
      q = Norm(q, Load(prefix + "self_attn.q_norm.weight"), dim);
      k = Norm(k, Load(prefix + "self_attn.k_norm.weight"), dim);
    }
    if (!status_.ok()) return;
    Rotate(q, config_.num_heads);
    Rotate(k, config_.num_kv_heads);
    Add(Product(Attend(q, k, v), static_cast<std::size_t>(config_.num_heads) * dim,
                prefix + "self_attn.o_proj", config_.output_bias));
    const Matrix mlp_in = Norm(x_, Load(prefix + "post_attention_layernorm.weight"), hidden);
    Matrix gate = Product(mlp_in, hidden, prefix + "mlp.gate_proj", config_.mlp_bias);
    const Matrix up = Product(mlp_in, hidden, prefix + "mlp.up_proj", config_.mlp_bias);
    if (!status_.ok()) return;
    for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
    Add(Product(gate, static_cast<std::size_t>(config_.intermediate_size), prefix + "mlp.down_proj",
                config_.mlp_bias));
  }

  void Add(const Matrix& branch) {
    for (std::size_t i = 0; i < branch.size(); ++i) x_[i] += branch[i];
  }

  const ModelFiles& files_;
  const ModelConfig& config_;
  std::span<const TokenId> ids_;
  std::size_t n_;
  RotaryFrequencies rope_;
  Matrix x_;  // [n, hidden], the residual
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::vector<double>> ReferenceLogits(const ModelFiles& files,
                                                    std::span<const TokenId> token_ids) {
  return Reference(files, token_ids).Logits();
}

}  // namespace thresher::testing
