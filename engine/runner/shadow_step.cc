#include "engine/runner/shadow_step.h"

#include <algorithm>

namespace thresher {

bool ShadowStep::Takes(const PagedAttention& attention) {
  if (interval_ == 0 || !attention.decodes_sparsely()) return false;
  return num_sparse_steps_++ % interval_ == 0;
}

absl::Status ShadowStep::RunDense(const BatchInputs& inputs, std::span<const std::int32_t> rows,
                                  CausalLm& model, PagedAttention& attention, Backend& backend,
                                  Stream& stream) {
  absl::Status status = attention.SetShadowPass(ShadowPass::kDense, stream);
  if (status.ok()) status = model.Forward(inputs, attention, stream);
  if (status.ok()) status = BestTokens(rows, model, backend, stream, dense_tokens_);
  if (status.ok()) status = attention.SetShadowPass(ShadowPass::kCompare, stream);
  return status;
}

absl::Status ShadowStep::CompareTokens(std::span<const std::int32_t> rows, CausalLm& model,
                                       Backend& backend, Stream& stream, ShadowReport& report) {
  absl::Status status = BestTokens(rows, model, backend, stream, real_tokens_);
  if (!status.ok() || !is_first_rank_) return status;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ++report.num_tokens;
    report.num_token_mismatches += dense_tokens_[i] != real_tokens_[i];
  }
  return status;
}

absl::Status ShadowStep::BestTokens(std::span<const std::int32_t> rows, CausalLm& model,
                                    Backend& backend, Stream& stream,
                                    std::vector<std::int32_t>& tokens) {
  tokens.clear();
  const auto most = static_cast<std::size_t>(logits_.shape[0]);
  for (std::size_t first = 0; first < rows.size(); first += most) {
    const std::size_t count = std::min(most, rows.size() - first);
    const TensorView logits = logits_.FirstRows(static_cast<std::int64_t>(count));
    absl::Status status = model.ComputeLogits(rows.subspan(first, count), logits, stream);
    if (status.ok() && is_first_rank_) {
      targets_.assign(count, 0);
      num_top_.assign(count, 1);
      scores_.resize(count);
      status = backend.ops().ScoreTokens(logits, targets_, num_top_, scores_, stream);
      if (status.ok()) status = stream.Synchronize();
    }
    if (!status.ok()) return status;
    if (!is_first_rank_) continue;
    for (const SampledToken& score : scores_) {
      // A row without a finite logit has no token; its request ends with an error of its own.
      tokens.push_back(score.valid && score.num_top > 0 ? score.top[0].token : -1);
    }
  }
  return absl::OkStatus();
}

}  // namespace thresher
