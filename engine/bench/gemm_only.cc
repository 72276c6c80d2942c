#include "engine/bench/gemm_only.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace thresher {

absl::StatusOr<std::unique_ptr<GemmOnly>> GemmOnly::Create(const ModelFiles& files,
                                                           Backend& backend,
                                                           std::int64_t max_rows) {
  std::unique_ptr<GemmOnly> gemm(new GemmOnly(backend));
  absl::StatusOr<std::unique_ptr<Stream>> stream = backend.device().CreateStream();
  if (!stream.ok()) return stream.status();
  gemm->stream_ = *std::move(stream);
  for (int i = 0; i < files.config().num_layers; ++i) {
    const std::string layer = absl::StrCat("model.layers.", i, ".");
    for (const std::vector<std::string>& names : std::vector<std::vector<std::string>>{
             {layer + "self_attn.q_proj.weight", layer + "self_attn.k_proj.weight",
              layer + "self_attn.v_proj.weight"},
             {layer + "self_attn.o_proj.weight"},
             {layer + "mlp.gate_proj.weight", layer + "mlp.up_proj.weight"},
             {layer + "mlp.down_proj.weight"}}) {
      if (absl::Status status = gemm->Pack(files, names); !status.ok()) return status;
    }
  }
  const char* head =
      files.HasWeight("lm_head.weight") ? "lm_head.weight" : "model.embed_tokens.weight";
  if (absl::Status status = gemm->Pack(files, {head}); !status.ok()) return status;
  if (absl::Status status = backend.ops().Reserve(max_rows); !status.ok()) return status;

  std::int64_t most_inputs = 0, most_outputs = 0;
  for (const auto& weight : gemm->weights_) {
    most_inputs = std::max(most_inputs, weight->cols());
    most_outputs = std::max(most_outputs, weight->rows());
  }
  const auto allocate = [&](std::int64_t elements, DType dtype, DeviceBuffer& buffer) {
    absl::StatusOr<DeviceBuffer> memory =
        backend.device().Allocate(static_cast<std::size_t>(elements * SizeOf(dtype)));
    if (!memory.ok()) return memory.status();
    buffer = *std::move(memory);
    return absl::OkStatus();
  };
  absl::Status status =
      allocate(max_rows * most_inputs, backend.ops().gemm_input_dtype(), gemm->input_);
  if (status.ok()) status = allocate(max_rows * most_outputs, DType::kF32, gemm->output_);
  if (!status.ok()) return status;
  return gemm;
}

absl::Status GemmOnly::Pack(const ModelFiles& files, const std::vector<std::string>& names) {
  std::vector<WeightSource> parts;
  for (const std::string& name : names) {
    absl::StatusOr<WeightSource> source = files.Weight(name);
    if (!source.ok()) return source.status();
    parts.push_back(*source);
  }
  absl::StatusOr<std::unique_ptr<PackedWeight>> weight = backend_.ops().PackWeight(parts);
  if (!weight.ok()) return weight.status();
  weights_.push_back(*std::move(weight));
  return absl::OkStatus();
}

absl::Status GemmOnly::Multiply(const PackedWeight& weight, std::int64_t num_rows, DType out) {
  return backend_.ops().MatMul(
      TensorView::Of(input_.get(), backend_.ops().gemm_input_dtype(), num_rows, weight.cols()),
      weight, TensorView(), TensorView::Of(output_.get(), out, num_rows, weight.rows()), *stream_);
}

absl::StatusOr<double> GemmOnly::StepSeconds(std::int64_t num_rows, std::int64_t num_logit_rows,
                                             int repetitions) {
  std::vector<double> seconds;
  for (int repetition = 0; repetition <= repetitions; ++repetition) {
    const auto start = std::chrono::steady_clock::now();
    for (const auto& weight : weights_) {
      const bool is_head = weight == weights_.back();
      const absl::Status status =
          is_head ? Multiply(*weight, num_logit_rows, DType::kF32)
                  : Multiply(*weight, num_rows, backend_.ops().activation_dtype());
      if (!status.ok()) return status;
    }
    if (absl::Status status = stream_->Synchronize(); !status.ok()) return status;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (repetition > 0) seconds.push_back(took.count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

std::int64_t GemmOnly::StepBytes(std::int64_t num_rows, std::int64_t num_logit_rows) const {
  std::int64_t bytes = 0;
  for (const auto& weight : weights_) {
    bytes += weight->BytesRead(weight == weights_.back() ? num_logit_rows : num_rows);
  }
  return bytes;
}

}  // namespace thresher
