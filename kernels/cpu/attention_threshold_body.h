// Thresholded attention over a vector type: one query's heads of one KV head against a range of
// keys. Every key is scored; of the values only the rows that a head keeps are read. A tile's kept
// rows are fetched while the next tile is scored, then added.
#pragma once

#if defined(__AVX2__)

#include <cstdint>
#include <cstring>

#include "kernels/cpu/attention_kept_rows_body.h"
#include "kernels/cpu/attention_threshold_merge_body.h"
#include "kernels/cpu/attention_threshold_unit.h"

namespace thresher {
// Unnamed on purpose, see simd_avx2.h.
namespace {

struct ThresholdScratch {
  ThresholdScratch(float* memory, int head_dim, int group_size)
      : query(memory),
        output(query + group_size * PaddedDim(head_dim)),
        score(output + 2 * group_size * PaddedDim(head_dim)),
        weight(score + group_size * kKeyTile),
        state(weight + 2 * group_size * kKeyTile) {}
  float* query;   // [group_size, PaddedDim], scale multiplied in, zero beyond head_dim
  float* output;  // [up to 2 group_size, PaddedDim]: of the heads, then the sums of kept values
  float* score;   // [group_size, kKeyTile], then exp(s − largest)
  float* weight;  // [up to 2 group_size, kKeyTile], of the kept rows that wait
  // [group_size, 16]: a ThresholdPartial, and after it the bits of the tile's kept keys.
  float* state;

  ThresholdPartial* partial(int head) const {
    return reinterpret_cast<ThresholdPartial*>(state + 16 * head);
  }
  std::uint64_t& kept_bits(int head) const {
    return *reinterpret_cast<std::uint64_t*>(state + 16 * head + kThresholdHeader);
  }
};

// to [PaddedDim], the order of LoadOfPair := scale · from [head_dim].
template <typename V, DType kType>
inline void LoadQueryRow(const float* from, int head_dim, float scale, float* to) {
  int i = 0;
  if constexpr (kType == DType::kBF16) {
    for (; i < PairedElements<V>(head_dim); i += 2 * V::kLanes) {
      for (int j = 0; j < V::kLanes; ++j) {
        to[i + j] = from[i + 2 * j] * scale;
        to[i + V::kLanes + j] = from[i + 2 * j + 1] * scale;
      }
    }
  }
  for (; i < head_dim; ++i) to[i] = from[i] * scale;
}

template <typename V, DType kType>
inline void StartRows(const AttentionUnit& rows, int num_outputs, const ThresholdScratch& s) {
  const int padded = PaddedDim(rows.head_dim);
  std::memset(s.query, 0, sizeof(float) * rows.num_rows * padded);
  std::memset(s.output, 0, sizeof(float) * num_outputs * padded);
  for (int head = 0; head < rows.num_rows; ++head) {
    LoadQueryRow<V, kType>(rows.q + RowOffset(rows, rows.first_row + head), rows.head_dim,
                           rows.scale, s.query + head * padded);
    *s.partial(head) = {.largest = kNegativeInfinity};
  }
}

// Scores of a tile for all heads, −infinity past its last key; fetches the next tile's keys.
template <typename V, DType kType>
inline void ScoreTile(const AttentionUnit& rows, const TileRows& keys, const TileRows& next_keys,
                      int num_keys, const ThresholdScratch& s) {
  const std::int64_t row_bytes = rows.head_dim * SizeOf(kType);
  const int padded = PaddedDim(rows.head_dim);
  ForHeadGroups<V>(rows.num_rows, [&]<int kHeads>(int head) {
    for (int key = 0; key < num_keys; key += 4) {
      const std::int64_t within = key % 8 * row_bytes;
      if (head == 0) PrefetchRow(next_keys.rows[key / 8] + within, 4 * row_bytes);
      ScoreFourKeys<V, kType, kHeads>(keys.rows[key / 8] + within, rows.head_dim,
                                      s.query + head * padded, s.score + head * kKeyTile + key);
    }
  });
  for (int head = 0; head < rows.num_rows; ++head) {
    for (int key = num_keys; key < kKeyTile; ++key) {
      s.score[head * kKeyTile + key] = kNegativeInfinity;
    }
  }
}

template <typename V>
inline std::uint64_t BitsAbove(const float* score, float threshold) {
  std::uint64_t bits = 0;
  for (int key = 0; key < kKeyTile; key += V::kLanes) {
    const auto above = V::Greater(V::Load(score + key), V::Set(threshold));
    bits |= std::uint64_t{V::Bits(above)} << key;
  }
  return bits;
}

// Notes which keys of a tile each head keeps; returns those that any head keeps. scores
// [group_size, kKeyTile], `stride` apart.
template <typename V>
inline std::uint64_t SelectKeys(const ThresholdUnit& unit, const float* scores, std::int64_t stride,
                                const ThresholdScratch& s) {
  std::uint64_t any = 0;
  for (int head = 0; head < unit.rows.num_rows; ++head) {
    const std::uint64_t bits = BitsAbove<V>(scores + head * stride, unit.thresholds[head]);
    s.kept_bits(head) = bits;
    s.partial(head)->survivors += static_cast<float>(__builtin_popcountll(bits));
    any |= bits;
  }
  s.partial(0)->value_rows += static_cast<float>(__builtin_popcountll(any));
  return any;
}

// Takes the tile's scores into a row's maximum: rescales what the row has and notes where the new
// maximum is.
template <typename V>
inline void RaiseMaximum(const float* score, int first_key, float* output, int padded,
                         ThresholdPartial& row) {
  typename V::F most = V::Load(score);
  for (int key = V::kLanes; key < kKeyTile; key += V::kLanes) {
    most = V::Max(most, V::Load(score + key));
  }
  const float largest = V::MaxOf(most);
  if (!(largest > row.largest)) return;
  int at = 0;
  while (score[at] != largest) ++at;
  const typename V::F factor = ExpOf<V>(V::Set(row.largest - largest));
  for (int i = 0; i < padded; i += V::kLanes) {
    V::Store(output + i, V::Mul(V::Load(output + i), factor));
  }
  const float rescale = FirstLane<V>(factor);
  row.kept *= rescale;
  row.dropped *= rescale;
  row.largest = largest;
  row.argmax = static_cast<float>(first_key + at);
}

// Scores to exp(s − largest), in place, and their sums over the keys in `used` and over the others.
template <typename V>
inline void WeighKeys(float* score, std::uint64_t used, ThresholdPartial& row) {
  using F = typename V::F;
  F kept = V::Zero(), dropped = V::Zero();
  const F largest = V::Set(row.largest);
  for (int key = 0; key < kKeyTile; key += V::kLanes) {
    const F weight = ExpOf<V>(V::Sub(V::Load(score + key), largest));
    V::Store(score + key, weight);
    const auto mask = V::MaskOf(static_cast<unsigned>(used >> key) & ((1ull << V::kLanes) - 1));
    kept = V::Add(kept, V::Select(mask, weight, V::Zero()));
    dropped = V::Add(dropped, V::ZeroWhere(mask, weight));
  }
  row.kept += V::SumOf(kept);
  row.dropped += V::SumOf(dropped);
}

// The weights that add up the kept values themselves: the group's if it promotes, else each head's,
// whose bits are those noted last.
inline void SetIndicators(const ThresholdUnit& unit, const KeptRows& kept,
                          const ThresholdScratch& s) {
  if (!unit.sums_values) return;
  const int group = unit.rows.num_rows;
  for (int head = 0; head < (unit.promotes ? 1 : group); ++head) {
    float* indicator = s.weight + (group + head) * kKeyTile;
    const std::uint64_t own = unit.promotes ? ~std::uint64_t{0} : s.kept_bits(head);
    for (int i = 0; i < kept.count; ++i) indicator[i] = own >> kept.keys[i] & 1 ? 1 : 0;
  }
}

// A tile's scores into the rows' states and the kept rows' weights.
template <typename V>
inline void WeighTile(const ThresholdUnit& unit, int first_key, std::uint64_t any,
                      const KeptRows& kept, const ThresholdScratch& s) {
  const int group = unit.rows.num_rows, padded = PaddedDim(unit.rows.head_dim);
  for (int head = 0; head < group; ++head) {
    float* score = s.score + head * kKeyTile;
    const std::uint64_t own = s.kept_bits(head);
    RaiseMaximum<V>(score, first_key, s.output + head * padded, padded, *s.partial(head));
    WeighKeys<V>(score, unit.promotes ? any : own, *s.partial(head));
    float* weight = s.weight + head * kKeyTile;
    for (int i = 0; i < kept.count; ++i) {
      weight[i] = unit.promotes || (own >> kept.keys[i] & 1) ? score[kept.keys[i]] : 0;
    }
  }
  SetIndicators(unit, kept, s);
}

// The same where the rows' largest scores and sums over all keys are known: only kept keys count.
template <typename V>
inline void WeighKeptKeys(const ThresholdUnit& unit, const float* scores, const KeptRows& kept,
                          const ThresholdScratch& s) {
  for (int head = 0; head < unit.rows.num_rows; ++head) {
    const float* score = scores + head * unit.score_stride;
    std::uint64_t own = ~std::uint64_t{0};
    if (!unit.promotes) own = s.kept_bits(head) = BitsAbove<V>(score, unit.thresholds[head]);
    float* weight = s.weight + head * kKeyTile;
    int count = 0;
    for (; count < kept.count; ++count) {
      const int key = kept.keys[count];
      weight[count] = own >> key & 1 ? score[key] : kNegativeInfinity;
    }
    for (; count % V::kLanes != 0; ++count) weight[count] = kNegativeInfinity;
    ThresholdPartial& row = *s.partial(head);
    for (int i = 0; i < count; i += V::kLanes) {
      V::Store(weight + i, ExpOf<V>(V::Sub(V::Load(weight + i), V::Set(row.largest))));
    }
    // One by one: what other heads keep adds zeros, and must not change a bit.
    float sum = 0;
    for (int i = 0; i < kept.count; ++i) sum += weight[i];
    row.kept += sum;
  }
  SetIndicators(unit, kept, s);
}

inline void WritePartials(const ThresholdUnit& unit, int num_outputs, const ThresholdScratch& s) {
  const int group = unit.rows.num_rows, padded = PaddedDim(unit.rows.head_dim);
  for (int head = 0; head < group; ++head) {
    float* to = unit.rows.partial + head * ThresholdPartialFloats(unit.rows.head_dim);
    std::memcpy(to, s.partial(head), sizeof(ThresholdPartial));
    to += kThresholdHeader;
    std::memcpy(to, s.output + head * padded, sizeof(float) * padded);
    if (group + head < num_outputs) {
      std::memcpy(to + padded, s.output + (group + head) * padded, sizeof(float) * padded);
    }
  }
}

// Calls tile(first_key, num_keys, keys, next_keys) for each tile of the unit; first_key is a
// position, next_keys are to be fetched meanwhile. Two tiles ahead were no faster than one; a first
// tile that nobody fetched costs 3 ns a key of 256.
template <typename Tile>
inline void ForTiles(const ThresholdUnit& unit, const Tile& tile) {
  const AttentionUnit& rows = unit.rows;
  const int end = rows.first_key + rows.num_keys, end_after = end + unit.num_keys_after;
  const std::int64_t row_bytes = rows.head_dim * SizeOf(rows.kv_dtype);
  const int num_first = Smaller(kKeyTile, rows.num_keys);
  TileRows next = FindRows(rows, rows.k, rows.first_key, num_first);
  for (int key = 0; key < num_first && !unit.follows; key += 8) {
    PrefetchRow(next.rows[key / 8], 8 * row_bytes);
  }
  for (int first = rows.first_key; first < end; first += kKeyTile) {
    const TileRows keys = next;
    const int later = first + kKeyTile;
    next = FindRows(rows, rows.k, later, Smaller(kKeyTile, end_after - later), keys);
    tile(first, Smaller(kKeyTile, end - first), keys, next);
  }
}

template <typename V, DType kType>
inline void AttendAs(const ThresholdUnit& unit, float* memory) {
  const AttentionUnit& rows = unit.rows;
  const int group = rows.num_rows;
  const int num_outputs = group + (!unit.sums_values ? 0 : unit.promotes ? 1 : group);
  const ThresholdScratch s(memory, rows.head_dim, group);
  StartRows<V, kType>(rows, num_outputs, s);
  KeptRows kept[2];
  int waiting = 0;
  ForTiles(unit, [&](int first, int num_keys, const TileRows& keys, const TileRows& next) {
    ScoreTile<V, kType>(rows, keys, next, num_keys, s);
    const std::uint64_t any = SelectKeys<V>(unit, s.score, kKeyTile, s);
    FetchRows(rows, first, any, kept[1 - waiting]);
    AddKeptValues<V, kType>(kept[waiting], rows.head_dim, num_outputs, s.weight, s.output);
    waiting = 1 - waiting;
    WeighTile<V>(unit, first, any, kept[waiting], s);
  });
  AddKeptValues<V, kType>(kept[waiting], rows.head_dim, num_outputs, s.weight, s.output);
  WritePartials(unit, num_outputs, s);
}

// The second pass over a unit whose partial results `ScoreAs` has made: reads no key again, and
// weighs the kept ones alone.
template <typename V, DType kType>
inline void AttendScoredAs(const ThresholdUnit& unit, float* memory) {
  const AttentionUnit& rows = unit.rows;
  const int group = rows.num_rows;
  const int num_outputs = group + (!unit.sums_values ? 0 : unit.promotes ? 1 : group);
  const ThresholdScratch s(memory, rows.head_dim, group);
  std::memset(s.output, 0, sizeof(float) * num_outputs * PaddedDim(rows.head_dim));
  for (int head = 0; head < group; ++head) {
    const auto& scored = *reinterpret_cast<const ThresholdPartial*>(
        rows.partial + head * ThresholdPartialFloats(rows.head_dim));
    *s.partial(head) = {.largest = scored.largest, .dropped = scored.kept, .argmax = scored.argmax};
  }
  // There is little to do between a tile's fetch and its use, so that several tiles wait.
  constexpr int kAhead = 4;
  KeptRows kept[kAhead];
  const int num_tiles = (rows.num_keys + kKeyTile - 1) / kKeyTile;
  for (int tile = 0; tile < num_tiles + kAhead; ++tile) {
    KeptRows& slot = kept[tile % kAhead];
    if (tile >= kAhead && slot.count > 0) {
      const int first = rows.first_key + (tile - kAhead) * kKeyTile;
      WeighKeptKeys<V>(unit, unit.scores + first, slot, s);
      AddKeptValues<V, kType>(slot, rows.head_dim, num_outputs, s.weight, s.output);
    }
    slot.count = 0;
    if (tile >= num_tiles) continue;
    const int first = rows.first_key + tile * kKeyTile;
    FetchRows(rows, first, SelectKeys<V>(unit, unit.scores + first, unit.score_stride, s), slot);
  }
  for (int head = 0; head < group; ++head) {
    ThresholdPartial& row = *s.partial(head);
    const float dropped = row.dropped - row.kept;
    row.dropped = dropped < 0 ? 0 : dropped;  // what rounding left; a NaN stays
  }
  WritePartials(unit, num_outputs, s);
}

template <typename V, DType kType>
inline void ScoreAs(const ThresholdUnit& unit, float* memory) {
  const AttentionUnit& rows = unit.rows;
  const ThresholdScratch s(memory, rows.head_dim, rows.num_rows);
  StartRows<V, kType>(rows, 0, s);
  ForTiles(unit, [&](int first, int num_keys, const TileRows& keys, const TileRows& next) {
    ScoreTile<V, kType>(rows, keys, next, num_keys, s);
    for (int head = 0; head < rows.num_rows; ++head) {
      float* score = s.score + head * kKeyTile;
      std::memcpy(unit.scores + head * unit.score_stride + first, score, sizeof(float) * kKeyTile);
      RaiseMaximum<V>(score, first, nullptr, 0, *s.partial(head));
      WeighKeys<V>(score, ~std::uint64_t{0}, *s.partial(head));
    }
  });
  for (int head = 0; head < rows.num_rows; ++head) {
    std::memcpy(rows.partial + head * ThresholdPartialFloats(rows.head_dim), s.partial(head),
                sizeof(ThresholdPartial));
  }
}

template <typename V>
void AttendThreshold(const ThresholdUnit& unit, float* scratch) {
  ForKvType(unit.rows.kv_dtype, [&]<DType kType>() {
    if (unit.scores == nullptr) {
      AttendAs<V, kType>(unit, scratch);
    } else {
      AttendScoredAs<V, kType>(unit, scratch);
    }
  });
}

template <typename V>
void ScoreThreshold(const ThresholdUnit& unit, float* scratch) {
  ForKvType(unit.rows.kv_dtype, [&]<DType kType>() { ScoreAs<V, kType>(unit, scratch); });
}

}  // namespace
}  // namespace thresher

#endif
