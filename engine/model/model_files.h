// A model, opened once and shared by all ranks: a Hugging Face folder, a GGUF file, or a shape
// whose weights are made from a seed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/model/model_config.h"
#include "engine/text/tokenizer.h"
#include "kernels/ops/packed_weight.h"

namespace thresher {

// Memory-mapped and checked at open. Immutable; any thread; outlives the models made from it.
class ModelFiles {
 public:
  // NotFound, InvalidArgument (damaged: says where), Unimplemented (names the unknown architecture,
  // rope type, format or tokenizer part). "synthetic:SHAPE" is no path; see
  // synthetic_model_files.h.
  static absl::StatusOr<std::unique_ptr<ModelFiles>> Open(const std::string& path);
  virtual ~ModelFiles() = default;

  virtual const ModelConfig& config() const = 0;
  virtual const GenerationDefaults& generation_defaults() const = 0;
  // The weight under its Hugging Face name ("model.layers.0.self_attn.q_proj.weight"), its rows in
  // Hugging Face's order: a GGUF's permuted rows come with a row_order that this object owns.
  // Norm weights are [1, n]; a bias is a column [n, 1], since it is cut and permuted with its
  // matrix's rows. Exactly the weights that config() asks for are there, in the shapes it gives.
  // NotFound.
  virtual absl::StatusOr<WeightSource> Weight(std::string_view name) const = 0;
  virtual bool HasWeight(std::string_view name) const = 0;
  virtual std::int64_t total_weight_bytes() const = 0;
  // Takes the weights' pages read so far out of resident memory; a later read maps them again.
  virtual void ReleasePages() const = 0;
  // As the factories of tokenizer.h; NotFound if the model brings none; InvalidArgument if it has
  // more tokens than the embedding has rows.
  virtual absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer() const = 0;
  virtual std::optional<std::string> chat_template() const = 0;
};

}  // namespace thresher
