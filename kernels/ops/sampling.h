// What sampling one row of logits takes and gives. Plain data: one row never sees another.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace thresher {

// A token that the sequence already holds, for the penalties.
struct TokenCount {
  std::int32_t token = 0;
  std::int32_t in_prompt = 0;  // times in the prompt
  std::int32_t generated = 0;  // times generated
};

struct TokenBias {
  std::int32_t token = 0;
  float bias = 0;  // added to the logit; −100 bans in practice, −infinity bans
};

inline constexpr int kMaxTopLogprobs = 20;

// Order: logit_bias and banned tokens, repetition penalty, presence and frequency penalty,
// (logprobs are taken here, before temperature and truncation), temperature, top_k, top_p, min_p,
// draw. top_p is of the mass that top_k leaves. Ties of all truncations go to the lowest id.
// temperature 0 is greedy: the largest logit, ties to the lowest id, whatever the truncations
// say.
struct SamplingRow {
  float temperature = 1;
  int top_k = 0;    // 0: off
  float top_p = 1;  // 1: off; the smallest set of most likely tokens whose mass reaches it
  float min_p = 0;  // 0: off; keeps tokens with probability at least min_p times the largest
  float repetition_penalty = 1;  // 1: off; divides positive logits, multiplies negative ones
  float presence_penalty = 0;    // on generated tokens only, as OpenAI's
  float frequency_penalty = 0;
  std::uint64_t seed = 0;  // the draw is a pure function of seed, choice_index, position
  std::uint32_t choice_index = 0;
  std::uint32_t position = 0;  // index of the token drawn, counted from the first of the prompt
  int num_top_logprobs = -1;   // −1: no logprobs; 0: the chosen token's only; at most 20
  std::span<const TokenCount> counts = {};     // ascending by token
  std::span<const TokenBias> logit_bias = {};  // ascending by token
  std::span<const std::int32_t> banned = {};   // e.g. end tokens below min_tokens
  // Where the device keeps the token for a later Embed, see DrawnToken; −1: nowhere.
  std::int32_t draw = -1;
};

// The id by which Embed takes the token that was kept last at `draw`, which the host need not have
// seen. A row that drew nothing keeps token 0.
constexpr std::int32_t DrawnToken(std::int32_t draw) { return -1 - draw; }

struct TokenLogprob {
  std::int32_t token = 0;
  float logprob = 0;
};

struct SampledToken {
  std::int32_t token = 0;
  float logprob = 0;                  // natural log; meaningful if logprobs were asked for
  std::int32_t rank = 0;              // 1 + number of tokens with a larger logprob
  int num_top = 0;                    // fewer than asked for if fewer tokens have a finite logit
  TokenLogprob top[kMaxTopLogprobs];  // most likely first, ties to the lowest id
  // A row with a NaN or +infinity, or with no finite logit, draws nothing, and neither does one
  // with a field out of range: token is −1 and the request fails, alone.
  bool valid = true;
  // The field out of range, a name that lives for ever; null if the logits are at fault.
  const char* bad_field = nullptr;
};

}  // namespace thresher
