// Launch of the sampling kernel: a block of threads for each row of logits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/ops/sampling.h"

namespace thresher {

// A SamplingRow as the kernel reads it. Ranges are of the call's arrays.
struct SamplingRowLaunch {
  float temperature = 1;
  std::int32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::int32_t num_top_logprobs = -1;
  double uniform = 0;               // in [0, 1): the draw
  std::int32_t target = -1;         // not negative: score this token instead of drawing one
  std::int32_t draw = -1;           // where the token is kept, −1: nowhere
  const char* bad_field = nullptr;  // the host's; not null: the row draws nothing and says this
  std::int32_t counts_begin = 0, counts_end = 0;
  std::int32_t bias_begin = 0, bias_end = 0;
  std::int32_t banned_begin = 0, banned_end = 0;
};

// Device memory.
struct SamplingLaunch {
  float* logits = nullptr;  // [num_rows, vocab]
  const SamplingRowLaunch* rows = nullptr;
  const TokenCount* counts = nullptr;
  const TokenBias* bias = nullptr;
  const std::int32_t* banned = nullptr;
  SampledToken* out = nullptr;  // [num_rows]
  std::int32_t* drawn = nullptr;
  std::int32_t num_rows = 0;
  std::int32_t vocab = 0;
};

cudaError_t LaunchSampling(const SamplingLaunch& arguments, cudaStream_t stream);

}  // namespace thresher
