// One row of logits to one token, by the rules of ops/sampling.h. Softmax weights are whole numbers
// of 2^-40, so that sums over a row are exact and no order of additions can change a draw; tokens
// below half of that, relative to the most likely one, have no weight.
#include "kernels/cuda/device_math.cuh"
#include "kernels/cuda/sampling.h"

namespace thresher {
namespace {

constexpr int kWarps = 32;
constexpr int kThreads = 32 * kWarps;
constexpr int kBins = 256;
using Mass = unsigned long long;

struct Scratch {
  Mass bins[kBins];
  Mass warp_mass[kWarps];
  double warp_sum[kWarps];
  float warp_value[kWarps];
  std::int32_t warp_token[kWarps];
  std::int32_t warp_count[kWarps];
  // What one thread decides for all.
  std::uint32_t key;
  Mass mass;
  Mass wanted;
  std::int32_t token;
  std::int32_t count;
};

// Ascends with the logit; both zeros are one.
__device__ std::uint32_t KeyOf(float logit) {
  const std::uint32_t bits = __float_as_uint(logit + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

__device__ float LogitOf(std::uint32_t key) {
  return __uint_as_float((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

// The tokens that a draw is among: those with a larger key, and of those with this key the first
// `ties` by id; and only where the weight is at least min_p.
struct Kept {
  std::uint32_t key = 0;
  std::int32_t ties = 0;
  float min_p = 0;
};

struct Weights {
  float largest = 0;
  float temperature = 1;
  // Division, not a product with 1 / temperature, which overflows for a tiny temperature.
  __device__ float Of(float logit) const { return expf((logit - largest) / temperature); }
  __device__ Mass MassOf(float logit) const { return __float2ull_rn(Of(logit) * 0x1p40f); }
};

// (value, token) of the most likely token that comes after (value_before, token_before) in the
// order by value, then id; token −1: none. Every thread gets it.
__device__ void FindNext(const float* logits, int vocab, float value_before, int token_before,
                         Scratch& scratch, float& value, int& token) {
  float best = -INFINITY;
  int best_token = -1;
  for (int i = threadIdx.x; i < vocab; i += kThreads) {
    const float x = logits[i];
    if (x > value_before || (x == value_before && i <= token_before)) continue;
    if (x > best) {
      best = x;
      best_token = i;
    }
  }
  const auto take = [&](float x, int i) {
    if (i >= 0 && (best_token < 0 || x > best || (x == best && i < best_token))) {
      best = x;
      best_token = i;
    }
  };
  for (int offset = 16; offset > 0; offset /= 2) {
    const float x = __shfl_xor_sync(kAllLanes, best, offset);
    const int i = __shfl_xor_sync(kAllLanes, best_token, offset);
    take(x, i);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    scratch.warp_value[threadIdx.x / 32] = best;
    scratch.warp_token[threadIdx.x / 32] = best_token;
  }
  __syncthreads();
  for (int warp = 0; warp < kWarps; ++warp) {
    take(scratch.warp_value[warp], scratch.warp_token[warp]);
  }
  value = best;
  token = best_token;
}

__device__ void ApplyBiasesAndPenalties(const SamplingLaunch& a, const SamplingRowLaunch& row,
                                        float* logits) {
  for (int i = row.bias_begin + threadIdx.x; i < row.bias_end; i += kThreads) {
    logits[a.bias[i].token] += a.bias[i].bias;
  }
  __syncthreads();
  for (int i = row.banned_begin + threadIdx.x; i < row.banned_end; i += kThreads) {
    logits[a.banned[i]] = -INFINITY;
  }
  __syncthreads();
  for (int i = row.counts_begin + threadIdx.x; i < row.counts_end; i += kThreads) {
    const TokenCount count = a.counts[i];
    float logit = logits[count.token];
    if (row.repetition_penalty != 1 && count.in_prompt + count.generated > 0) {
      logit = logit > 0 ? logit / row.repetition_penalty : logit * row.repetition_penalty;
    }
    if (count.generated > 0) {
      logit -= row.presence_penalty + row.frequency_penalty * static_cast<float>(count.generated);
    }
    logits[count.token] = logit;
  }
  __syncthreads();
}

// Whether the row has a distribution: no NaN, no +infinity, a finite logit.
__device__ bool IsValid(const float* logits, int vocab) {
  bool bad = false, finite = false;
  for (int i = threadIdx.x; i < vocab; i += kThreads) {
    bad |= !(logits[i] < INFINITY);  // a NaN is not less
    finite |= logits[i] > -INFINITY;
  }
  const bool any_bad = __syncthreads_or(bad), any_finite = __syncthreads_or(finite);
  return !any_bad && any_finite;
}

// The key at which the sum of `of` over tokens, largest key first, reaches `wanted`, and what is
// wanted of the tokens with that very key. Eight bits of the key at a time.
template <typename Of>
__device__ void SelectKey(const float* logits, int vocab, Mass wanted, const Of& of,
                          Scratch& scratch) {
  std::uint32_t prefix = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int bin = threadIdx.x; bin < kBins; bin += kThreads) scratch.bins[bin] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < vocab; i += kThreads) {
      const std::uint32_t key = KeyOf(logits[i]);
      if (shift < 24 && key >> (shift + 8) != prefix) continue;
      const Mass mass = of(logits[i]);
      if (mass != 0) atomicAdd(&scratch.bins[key >> shift & (kBins - 1)], mass);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int bin = kBins - 1;
      while (bin > 0 && scratch.bins[bin] < wanted) wanted -= scratch.bins[bin--];
      scratch.key = prefix << 8 | static_cast<std::uint32_t>(bin);
      scratch.wanted = wanted;
    }
    __syncthreads();
    prefix = scratch.key;
    wanted = scratch.wanted;
  }
}

__device__ Mass BlockMass(Mass mass, Scratch& scratch) {
  __syncthreads();
  return BlockSum<kWarps>(mass, scratch.warp_mass);
}

// Narrows `kept` to the top_k most likely tokens, then to the smallest set of the most likely ones
// whose share of their mass reaches top_p.
__device__ Kept Truncate(const float* logits, int vocab, const SamplingRowLaunch& row,
                         const Weights& weights, Scratch& scratch) {
  Kept kept;
  kept.min_p = row.min_p;
  if (row.top_k > 0 && row.top_k < vocab) {
    SelectKey(
        logits, vocab, static_cast<Mass>(row.top_k), [](float) { return Mass{1}; }, scratch);
    kept.key = scratch.key;
    kept.ties = static_cast<std::int32_t>(scratch.wanted);
    __syncthreads();
  }
  if (row.top_p >= 1) return kept;
  const Mass tied_mass = kept.ties > 0 ? weights.MassOf(LogitOf(kept.key)) : 0;
  const auto above = [&](float logit) {
    return KeyOf(logit) > kept.key ? weights.MassOf(logit) : Mass{0};
  };
  Mass mass = 0;
  for (int i = threadIdx.x; i < vocab; i += kThreads) mass += above(logits[i]);
  const Mass larger = BlockMass(mass, scratch);
  const Mass total = larger + tied_mass * static_cast<Mass>(kept.ties);
  const double share = ceil(static_cast<double>(row.top_p) * static_cast<double>(total));
  const Mass wanted = min(total, max(Mass{1}, static_cast<Mass>(share)));
  if (wanted > larger) {
    // The cut is among the tokens that tie for the last place of top_k.
    const Mass more = wanted - larger;
    kept.ties = static_cast<std::int32_t>((more + tied_mass - 1) / tied_mass);
    return kept;
  }
  SelectKey(logits, vocab, wanted, above, scratch);
  kept.key = scratch.key;
  const Mass each = weights.MassOf(LogitOf(kept.key));
  kept.ties = static_cast<std::int32_t>((scratch.wanted + each - 1) / each);
  __syncthreads();
  return kept;
}

// The first token, in order of ids, at which the running mass passes `uniform` times the whole. A
// warp has a stretch of ids; the one in which it happens goes over its stretch again.
__device__ int Draw(const float* logits, int vocab, const Kept& kept, const Weights& weights,
                    double uniform, Scratch& scratch) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int stretch = (vocab + kThreads - 1) / kThreads * 32;
  const int begin = min(vocab, warp * stretch), end = min(vocab, begin + stretch);
  const auto mass_of = [&](float logit) {
    return weights.Of(logit) >= kept.min_p ? weights.MassOf(logit) : Mass{0};
  };
  Mass mass = 0;
  int ties = 0;
  for (int i = begin + lane; i < end; i += 32) {
    const std::uint32_t key = KeyOf(logits[i]);
    if (key > kept.key) mass += mass_of(logits[i]);
    ties += key == kept.key;
  }
  mass = WarpSum(mass);
  ties = WarpSum(ties);
  if (lane == 0) {
    scratch.warp_mass[warp] = mass;
    scratch.warp_count[warp] = ties;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    const Mass tied_mass = kept.ties > 0 ? mass_of(LogitOf(kept.key)) : 0;
    Mass total = 0;
    int left = kept.ties;
    for (int i = 0; i < kWarps; ++i) {
      const int taken = min(left, scratch.warp_count[i]);
      left -= taken;
      scratch.warp_mass[i] += tied_mass * static_cast<Mass>(taken);
      scratch.warp_count[i] = taken;
      total += scratch.warp_mass[i];
    }
    const Mass wanted = min(total - 1, static_cast<Mass>(uniform * static_cast<double>(total)));
    int chosen = 0;
    Mass before = 0;
    while (before + scratch.warp_mass[chosen] <= wanted) before += scratch.warp_mass[chosen++];
    scratch.wanted = wanted - before;
    scratch.token = chosen;
  }
  __syncthreads();
  const int chosen = scratch.token;
  const Mass wanted = scratch.wanted;
  __syncthreads();
  if (warp == chosen) {
    Mass before = 0;
    int left = scratch.warp_count[warp];
    for (int first = begin; first < end; first += 32) {
      const int i = first + lane;
      const std::uint32_t key = i < end ? KeyOf(logits[i]) : 0;
      const unsigned tied = __ballot_sync(kAllLanes, i < end && key == kept.key);
      const bool keeps_tie = (tied >> lane & 1) != 0 && __popc(tied & ((1u << lane) - 1)) < left;
      left -= min(left, __popc(tied));
      Mass sum = i < end && (key > kept.key || keeps_tie) ? mass_of(logits[i]) : 0;
      for (int offset = 1; offset < 32; offset *= 2) {
        const Mass lower = __shfl_up_sync(kAllLanes, sum, offset);
        if (lane >= offset) sum += lower;
      }
      const unsigned passed = __ballot_sync(kAllLanes, before + sum > wanted);
      if (passed != 0) {
        if (lane == 0) scratch.token = first + __ffs(static_cast<int>(passed)) - 1;
        break;
      }
      before += __shfl_sync(kAllLanes, sum, 31);
    }
  }
  __syncthreads();
  return scratch.token;
}

// Fills logprob, rank and the top tokens of `token`.
__device__ void AddLogprobs(const float* logits, int vocab, float largest, int token, int num_top,
                            Scratch& scratch, SampledToken& out) {
  const float logit = logits[token];
  double sum = 0;
  int larger = 0;
  for (int i = threadIdx.x; i < vocab; i += kThreads) {
    sum += static_cast<double>(expf(logits[i] - largest));
    larger += logits[i] > logit;
  }
  __syncthreads();
  sum = BlockSum<kWarps>(sum, scratch.warp_sum);
  larger = BlockSum<kWarps>(larger, scratch.warp_count);
  const double log_sum = log(sum);
  const auto logprob = [&](float x) {
    return static_cast<float>(static_cast<double>(x) - largest - log_sum);
  };
  if (threadIdx.x == 0) {
    out.logprob = logprob(logit);
    out.rank = 1 + larger;
  }
  float value = INFINITY;
  int found = -1, count = 0;
  while (count < num_top) {
    FindNext(logits, vocab, value, found, scratch, value, found);
    if (found < 0) break;
    if (threadIdx.x == 0) out.top[count] = {found, logprob(value)};
    ++count;
  }
  if (threadIdx.x == 0) out.num_top = count;
}

__global__ void __launch_bounds__(kThreads) SampleRows(SamplingLaunch a) {
  __shared__ Scratch scratch;
  const SamplingRowLaunch row = a.rows[blockIdx.x];
  SampledToken& out = a.out[blockIdx.x];
  if (threadIdx.x == 0) {
    out.valid = false;
    out.bad_field = row.bad_field;
    out.logprob = 0;
    out.rank = 0;
    out.num_top = 0;
    out.token = -1;
    if (row.draw >= 0) a.drawn[row.draw] = 0;
  }
  if (row.bad_field != nullptr) return;
  float* logits = a.logits + std::int64_t{blockIdx.x} * a.vocab;
  ApplyBiasesAndPenalties(a, row, logits);
  if (!IsValid(logits, a.vocab)) return;
  float largest = 0;
  int best = 0;
  FindNext(logits, a.vocab, INFINITY, -1, scratch, largest, best);
  int token = row.target >= 0 ? row.target : best;
  if (row.target < 0 && row.temperature > 0) {
    const Weights weights = {largest, row.temperature};
    const Kept kept = Truncate(logits, a.vocab, row, weights, scratch);
    __syncthreads();
    token = Draw(logits, a.vocab, kept, weights, row.uniform, scratch);
  }
  if (threadIdx.x == 0) {
    out.valid = true;
    out.token = token;
    if (row.draw >= 0) a.drawn[row.draw] = token;
  }
  if (row.num_top_logprobs >= 0) {
    AddLogprobs(logits, a.vocab, largest, token, row.num_top_logprobs, scratch, out);
  }
}

}  // namespace

cudaError_t LaunchSampling(const SamplingLaunch& arguments, cudaStream_t stream) {
  if (arguments.num_rows == 0) return cudaSuccess;
  SampleRows<<<static_cast<unsigned>(arguments.num_rows), kThreads, 0, stream>>>(arguments);
  return cudaGetLastError();
}

}  // namespace thresher
