#include "kernels/cpu/block_row_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace thresher {
namespace {

constexpr float kNotScored = -std::numeric_limits<float>::infinity();

float* FloatsAt(std::byte* scratch, std::size_t offset) {
  return reinterpret_cast<float*>(scratch + offset);
}

// The mean over the pairs, which are as many for each query: kListedBlock / stride.
void ScoreAntidiagonal(const BlockScoreLoops& loops, const BlockSelectionRules& rules,
                       const BlockSelectionLayout& layout, const BlockRowInputs& inputs,
                       const BlockRow& row, std::byte* scratch, float* scores,
                       std::int64_t score_stride) {
  const int head_dim = inputs.unit.head_dim, length = rules.stride * head_dim;
  float* query_sums = FloatsAt(scratch, layout.query_sums);
  for (int head = 0; head < row.group_size; ++head) {
    BlockQueries queries = row.queries;
    queries.q += std::int64_t{head} * head_dim;
    loops.query_sums(queries, head_dim, rules.stride, query_sums + std::int64_t{head} * length);
  }
  const int num_scored = std::min(row.own + 1, inputs.num_complete);
  const auto num_pairs =
      static_cast<float>(row.queries.num_queries * (kListedBlock / rules.stride));
  loops.products(query_sums, row.group_size, inputs.key_sums, num_scored, length,
                 inputs.unit.scale / num_pairs, scores, score_stride);
  for (int head = 0; head < row.group_size; ++head) {
    float* of_head = scores + head * score_stride;
    if (inputs.value_terms != nullptr) {
      for (int j = 0; j < num_scored; ++j) of_head[j] += inputs.beta * inputs.value_terms[j];
    }
    std::fill(of_head + num_scored, of_head + row.own + 1, kNotScored);
  }
}

// Each group's softmax over all groups of keys that it sees, from the blocks' own sums. kExactMass
// has groups of one token and gives the mean over the queries.
void ScoreGroupMass(const BlockScoreLoops& loops, const BlockSelectionRules& rules,
                    const BlockSelectionLayout& layout, const BlockRowInputs& inputs,
                    const BlockRow& row, std::byte* scratch, float* scores,
                    std::int64_t score_stride) {
  const bool is_exact = rules.score == BlockScore::kExactMass;
  const int stride = GroupStride(rules);
  const int num_scored = is_exact ? row.own + 1 : std::min(row.own + 1, inputs.num_complete);
  float* largest = FloatsAt(scratch, layout.group_largest);
  float* sum = FloatsAt(scratch, layout.group_sum);
  const int first_group = row.queries.first_offset / stride;
  const int last_group = (row.queries.first_offset + row.queries.num_queries - 1) / stride;
  for (int head = 0; head < row.group_size; ++head) {
    BlockQueries queries = row.queries;
    queries.q += std::int64_t{head} * inputs.unit.head_dim;
    float* of_head = scores + head * score_stride;
    std::fill(of_head, of_head + num_scored, 0.0f);
    std::fill(of_head + num_scored, of_head + row.own + 1, kNotScored);
    for (int j = 0; j < num_scored; ++j) {
      const int num_keys = std::min(kListedBlock, inputs.num_keys - j * kListedBlock);
      loops.group_sums(inputs.unit, queries, stride, j * kListedBlock, num_keys, j == row.own,
                       FloatsAt(scratch, layout.keys), largest + j, sum + j, num_scored);
    }
    const float share = is_exact ? 1.0f / static_cast<float>(row.queries.num_queries) : 1.0f;
    for (int group = first_group; group <= last_group; ++group) {
      float* const most = largest + std::int64_t{group} * num_scored;
      float* const mass = sum + std::int64_t{group} * num_scored;
      const float maximum = *std::max_element(most, most + num_scored);
      double total = 0;
      for (int j = 0; j < num_scored; ++j) {
        mass[j] *= std::exp(most[j] - maximum);
        total += mass[j];
      }
      const auto factor = static_cast<float>(share / total);
      for (int j = 0; j < num_scored; ++j) of_head[j] += mass[j] * factor;
    }
  }
}

std::uint64_t Mix(std::uint64_t x) {
  // The finaliser of splitmix64 (Steele, Lea and Flood, 2014).
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

void ScoreRandom(const BlockSelectionRules& rules, int layer_index, const BlockRow& row,
                 float* scores, std::int64_t score_stride) {
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u;
  for (int head = 0; head < row.group_size; ++head) {
    const auto layer = static_cast<std::uint64_t>(layer_index);
    std::uint64_t key = Mix(rules.seed + kStep * (layer + 1));
    key = Mix(key + kStep * static_cast<std::uint64_t>(row.first_head + head + 1));
    key = Mix(key + kStep * static_cast<std::uint64_t>(row.own + 1));
    for (int j = 0; j <= row.own; ++j) {
      const std::uint64_t bits = Mix(key + kStep * static_cast<std::uint64_t>(j + 1));
      scores[head * score_stride + j] = static_cast<float>(bits >> 40) * 0x1p-24f;
    }
  }
}

}  // namespace

void ScoreBlockRow(const BlockScoreLoops& loops, const BlockSelectionRules& rules,
                   const BlockSelectionLayout& layout, int layer_index,
                   const BlockRowInputs& inputs, const BlockRow& row, std::byte* scratch,
                   float* scores, std::int64_t score_stride) {
  if (rules.score == BlockScore::kAntidiagonal) {
    ScoreAntidiagonal(loops, rules, layout, inputs, row, scratch, scores, score_stride);
  } else if (rules.score == BlockScore::kRandom) {
    ScoreRandom(rules, layer_index, row, scores, score_stride);
  } else {
    ScoreGroupMass(loops, rules, layout, inputs, row, scratch, scores, score_stride);
  }
}

}  // namespace thresher
