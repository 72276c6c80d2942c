#include "engine/bench/step_floor.h"

#include "engine/model/weight_table.h"

namespace thresher {

absl::StatusOr<StepFloor> StepFloorOf(const ModelFiles& files, DeviceKind device, DType kv_dtype) {
  const ModelConfig& config = files.config();
  const std::string embedding = "model.embed_tokens.weight";
  const std::string head = config.tied_embeddings ? embedding : "lm_head.weight";
  StepFloor floor;
  for (const ExpectedWeight& weight : ExpectedWeights(config)) {
    if (weight.is_vector || (weight.name == embedding && head != embedding)) continue;
    const absl::StatusOr<WeightSource> source = files.Weight(weight.name);
    if (!source.ok()) return source.status();
    const std::int64_t elements = weight.rows * weight.cols;
    (weight.name == head ? floor.head_elements : floor.layer_elements) += elements;
    floor.weight_bytes += device == DeviceKind::kCuda ? elements * SizeOf(DType::kBF16)
                                                      : elements / BlockElements(source->format) *
                                                            BlockBytes(source->format);
  }
  floor.kv_bytes = std::int64_t{2} * config.num_layers * config.num_kv_heads * config.head_dim *
                   SizeOf(kv_dtype);
  floor.attention_width = std::int64_t{config.num_layers} * config.num_heads * config.head_dim;
  return floor;
}

double StepFloor::DecodeBytes(int batch, int context) const {
  return static_cast<double>(weight_bytes) +
         static_cast<double>(kv_bytes) * static_cast<double>(batch) * context;
}

double StepFloor::PrefillOperations(int prompt_tokens) const {
  const double tokens = prompt_tokens;
  // Q·Kᵀ and P·V, two operations a product each; a row attends to half of the prompt on average.
  return 2 * (static_cast<double>(layer_elements) * tokens + static_cast<double>(head_elements)) +
         2 * static_cast<double>(attention_width) * tokens * (tokens + 1);
}

}  // namespace thresher
