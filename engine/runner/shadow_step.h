// Sampled steps that also compute dense attention: a dense pass of the model first, then the real
// one, and how their most likely tokens compare. The layers' outputs are compared by
// PagedAttention.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/attention/paged_attention.h"
#include "engine/model/causal_lm.h"
#include "kernels/backend.h"

namespace thresher {

// One rank's. Every rank takes the same steps, since it counts the same ones.
class ShadowStep final {
 public:
  // A step in `interval` of those that decode sparsely; 0: none. `logits` [rows, vocab_size] f32 is
  // scratch that outlives the object.
  ShadowStep(int interval, bool is_first_rank, TensorView logits)
      : interval_(interval), is_first_rank_(is_first_rank), logits_(logits) {}

  // Counts a planned step; true if it is one of the sampled ones.
  bool Takes(const PagedAttention& attention);
  // The dense pass, before the real one, which `attention` is then set to compare. `rows` are those
  // of sparsely decoded sequences that draw a token.
  absl::Status RunDense(const BatchInputs& inputs, std::span<const std::int32_t> rows,
                        CausalLm& model, PagedAttention& attention, Backend& backend,
                        Stream& stream);
  // After the real pass, with the same rows. Rank 0 adds to the report.
  absl::Status CompareTokens(std::span<const std::int32_t> rows, CausalLm& model, Backend& backend,
                             Stream& stream, ShadowReport& report);

 private:
  // The most likely token of each row of the last pass; on rank 0.
  absl::Status BestTokens(std::span<const std::int32_t> rows, CausalLm& model, Backend& backend,
                          Stream& stream, std::vector<std::int32_t>& tokens);

  const int interval_;
  const bool is_first_rank_;
  const TensorView logits_;
  std::int64_t num_sparse_steps_ = 0;
  std::vector<std::int32_t> dense_tokens_, real_tokens_, targets_;
  std::vector<int> num_top_;
  std::vector<SampledToken> scores_;
};

}  // namespace thresher
