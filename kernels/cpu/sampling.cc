#include "kernels/cpu/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/philox.h"

namespace thresher {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();

bool IsToken(std::int32_t token, std::int64_t vocab) { return token >= 0 && token < vocab; }

// What the lists of a row name.
const char* BadListField(const SamplingRow& row, std::int64_t vocab) {
  for (const TokenCount& count : row.counts) {
    if (!IsToken(count.token, vocab)) return "counts.token";
  }
  for (const TokenBias& bias : row.logit_bias) {
    if (!IsToken(bias.token, vocab)) return "logit_bias.token";
    if (!(bias.bias <= kLargest)) return "logit_bias.bias";
  }
  for (const std::int32_t token : row.banned) {
    if (!IsToken(token, vocab)) return "banned";
  }
  return nullptr;
}

void ApplyBiasesAndPenalties(std::span<float> logits, const SamplingRow& row) {
  for (const TokenBias& bias : row.logit_bias) logits[bias.token] += bias.bias;
  for (const std::int32_t token : row.banned) {
    logits[token] = -std::numeric_limits<float>::infinity();
  }
  for (const TokenCount& count : row.counts) {
    float& logit = logits[count.token];
    if (row.repetition_penalty != 1 && count.in_prompt + count.generated > 0) {
      logit = logit > 0 ? logit / row.repetition_penalty : logit * row.repetition_penalty;
    }
    if (count.generated > 0) {
      logit -= row.presence_penalty + row.frequency_penalty * static_cast<float>(count.generated);
    }
  }
}

// Fills logprob, rank and the top tokens of result.token.
void AddLogprobs(const RowOps& ops, std::span<const float> logits, float largest, int num_top,
                 SamplingScratch& scratch, SampledToken& result) {
  const std::int64_t vocab = static_cast<std::int64_t>(logits.size());
  // f32 differences from the largest logit are exact to 2^-24 of themselves; the sum is at least 1.
  const double log_sum = std::log(ops.sum_exp(logits.data(), vocab, largest));
  const auto logprob = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - largest - log_sum);
  };
  const float logit = logits[result.token];
  result.logprob = logprob(logit);
  result.rank = 1 + static_cast<std::int32_t>(ops.count_greater(logits.data(), vocab, logit));
  SelectTopK(ops, logits, num_top, scratch.select, scratch.top);
  result.num_top = static_cast<int>(scratch.top.size());
  for (int i = 0; i < result.num_top; ++i) {
    result.top[i] = {scratch.top[i].token, logprob(scratch.top[i].value)};
  }
}

// The first token, in order of ids, at which the running sum passes u times the whole.
std::int32_t DrawAmong(std::span<const Candidate> candidates, double u) {
  double total = 0;
  for (const Candidate& candidate : candidates) total += candidate.value;
  const double target = u * total;
  double sum = 0;
  std::int32_t drawn = candidates.front().token;
  for (const Candidate& candidate : candidates) {
    if (candidate.value <= 0) continue;
    drawn = candidate.token;
    sum += candidate.value;
    if (sum > target) break;
  }
  return drawn;
}

double ComputeWeights(const RowOps& ops, std::span<const float> logits, float largest,
                      float temperature, SamplingScratch& scratch) {
  scratch.weight.resize(logits.size());
  scratch.block_sum.resize((logits.size() + kLogitBlock - 1) / kLogitBlock);
  ops.exp_weights(logits.data(), static_cast<std::int64_t>(logits.size()), largest, temperature,
                  scratch.weight.data(), scratch.block_sum.data());
  double total = 0;
  for (const float sum : scratch.block_sum) total += sum;
  return total;
}

// As DrawAmong over the whole vocabulary, block by block.
std::int32_t DrawAmongAll(std::span<const float> weight, std::span<const float> block_sum,
                          double total, double u) {
  const double target = u * total;
  double sum = 0;
  std::size_t chosen = 0;
  for (std::size_t block = 0; block < block_sum.size(); ++block) {
    if (block_sum[block] <= 0) continue;
    chosen = block;
    if (sum + block_sum[block] > target) break;
    if (block + 1 < block_sum.size()) sum += block_sum[block];
  }
  const std::size_t begin = chosen * kLogitBlock;
  const std::size_t end = std::min(weight.size(), begin + kLogitBlock);
  std::int32_t drawn = static_cast<std::int32_t>(begin);
  for (std::size_t i = begin; i < end; ++i) {
    if (weight[i] <= 0) continue;
    drawn = static_cast<std::int32_t>(i);
    sum += weight[i];
    if (sum > target) break;
  }
  return drawn;
}

// The k most likely tokens in order of ids, as weights.
void CandidatesOfTopK(const RowOps& ops, std::span<const float> logits, const SamplingRow& row,
                      float largest, SamplingScratch& scratch) {
  SelectTopK(ops, logits, row.top_k, scratch.select, scratch.candidates);
  for (Candidate& candidate : scratch.candidates) {
    candidate.value = static_cast<float>(
        std::exp((static_cast<double>(candidate.value) - largest) / row.temperature));
  }
  std::sort(scratch.candidates.begin(), scratch.candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
}

// All tokens that top_p or min_p can keep. Tokens below (1 − top_p) · total / vocab weigh less than
// (1 − top_p) · total together, so the smallest set that reaches top_p lies above.
void CandidatesOfMass(std::span<const float> weight, const SamplingRow& row, double total,
                      SamplingScratch& scratch) {
  const double tail = (1.0 - static_cast<double>(row.top_p)) * total / weight.size();
  const float bound = std::max(static_cast<float>(0.999 * tail), row.min_p);
  scratch.candidates.clear();
  for (std::size_t block = 0; block < scratch.block_sum.size(); ++block) {
    if (scratch.block_sum[block] < bound) continue;
    const std::size_t begin = block * kLogitBlock;
    const std::size_t end = std::min(weight.size(), begin + kLogitBlock);
    for (std::size_t i = begin; i < end; ++i) {
      if (weight[i] >= bound && weight[i] > 0) {
        scratch.candidates.push_back({weight[i], static_cast<std::int32_t>(i)});
      }
    }
  }
}

std::int32_t Draw(const RowOps& ops, std::span<const float> logits, const SamplingRow& row,
                  const RowMaximum& maximum, SamplingScratch& scratch) {
  const double u = UniformDraw(row.seed, row.choice_index, row.position);
  const bool top_k = row.top_k > 0 && row.top_k < static_cast<std::int64_t>(logits.size());
  if (!top_k && row.top_p >= 1 && row.min_p <= 0) {
    const double total = ComputeWeights(ops, logits, maximum.value, row.temperature, scratch);
    return DrawAmongAll(scratch.weight, scratch.block_sum, total, u);
  }
  double total = 0;
  if (top_k) {
    CandidatesOfTopK(ops, logits, row, maximum.value, scratch);
    for (const Candidate& candidate : scratch.candidates) total += candidate.value;
  } else {
    total = ComputeWeights(ops, logits, maximum.value, row.temperature, scratch);
    CandidatesOfMass(scratch.weight, row, total, scratch);
  }
  if (row.top_p < 1) {
    KeepMass(static_cast<double>(row.top_p) * total, scratch.select, scratch.candidates);
  }
  if (row.min_p > 0) {
    // The largest weight is exp(0) = 1, and it always stays.
    std::erase_if(scratch.candidates, [&](const Candidate& c) { return c.value < row.min_p; });
  }
  return DrawAmong(scratch.candidates, u);
}

}  // namespace

void SamplingScratch::Reserve(std::int64_t vocab) {
  const auto n = static_cast<std::size_t>(vocab);
  select.Reserve(vocab);
  weight.reserve(n);
  block_sum.reserve((n + kLogitBlock - 1) / kLogitBlock);
  candidates.reserve(n);
  top.reserve(n);
}

// Written so that a NaN is out of every range.
const char* BadField(const SamplingRow& row, std::int64_t vocab) {
  if (!(row.temperature >= 0 && row.temperature <= kLargest)) return "temperature";
  if (row.top_k < 0) return "top_k";
  if (!(row.top_p >= 0 && row.top_p <= 1)) return "top_p";
  if (!(row.min_p >= 0 && row.min_p <= 1)) return "min_p";
  if (!(row.repetition_penalty > 0 && row.repetition_penalty <= kLargest)) {
    return "repetition_penalty";
  }
  if (!(std::fabs(row.presence_penalty) <= kLargest)) return "presence_penalty";
  if (!(std::fabs(row.frequency_penalty) <= kLargest)) return "frequency_penalty";
  if (row.num_top_logprobs < -1 || row.num_top_logprobs > kMaxTopLogprobs) {
    return "num_top_logprobs";
  }
  return BadListField(row, vocab);
}

SampledToken NoToken(const char* bad_field) {
  SampledToken result;
  result.token = -1;
  result.valid = false;
  result.bad_field = bad_field;
  return result;
}

SampledToken SampleRow(const RowOps& ops, std::span<float> logits, const SamplingRow& row,
                       SamplingScratch& scratch) {
  ApplyBiasesAndPenalties(logits, row);
  SampledToken result;
  const RowMaximum maximum =
      ops.row_maximum(logits.data(), static_cast<std::int64_t>(logits.size()));
  if (!maximum.valid) return NoToken(nullptr);
  result.token = row.temperature > 0 ? Draw(ops, logits, row, maximum, scratch)
                                     : static_cast<std::int32_t>(maximum.index);
  if (row.num_top_logprobs >= 0) {
    AddLogprobs(ops, logits, maximum.value, row.num_top_logprobs, scratch, result);
  }
  return result;
}

SampledToken ScoreRow(const RowOps& ops, std::span<const float> logits, std::int32_t target,
                      int num_top, SamplingScratch& scratch) {
  SampledToken result;
  result.token = target;
  const RowMaximum maximum =
      ops.row_maximum(logits.data(), static_cast<std::int64_t>(logits.size()));
  if (!maximum.valid) return NoToken(nullptr);
  AddLogprobs(ops, logits, maximum.value, num_top, scratch, result);
  return result;
}

}  // namespace thresher
