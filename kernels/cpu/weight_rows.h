// The rows a caller wants of one part of a weight, checked once, then read by number.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cpu/dequantize.h"
#include "kernels/ops/packed_weight.h"

namespace thresher {

// Borrows the source's bytes, if it has any, and row_order. Safe to read from many threads.
class WeightRows final {
 public:
  // InvalidArgument, starting with `name`, if there are no bytes, a shape is not positive, too
  // large to address or not whole blocks, a row or column is out of range, or generated numbers
  // have bytes, another format than BF16 or no proper deviation.
  static absl::StatusOr<WeightRows> Create(const WeightSource& source, const std::string& name);

  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  WeightFormat format() const { return source_.format; }
  // True if the columns wanted are whole groups, so that integers and scales can be kept.
  bool whole_groups() const { return whole_groups_; }
  // What the rows are taken from, as it was given.
  const WeightSource& source() const { return source_; }
  GroupLayout groups() const { return GroupsOf(source_.format); }

  // Row `row` of those wanted, in f32, as GGUF defines it. out [cols]
  void Dequantize(std::int64_t row, float* out) const;

  // Row `row` taken apart. integers [cols], scales and minima [cols / groups().size]. `scratch` is
  // overwritten. Only with whole_groups().
  struct Scratch {
    std::vector<std::int8_t> integers;
    std::vector<float> scales, minima;
  };
  void Decode(std::int64_t row, Scratch& scratch, std::span<const std::int8_t>& integers,
              std::span<const float>& scales, std::span<const float>& minima) const;

 private:
  explicit WeightRows(const WeightSource& source);
  std::int64_t StoredRow(std::int64_t row) const;
  const std::byte* RowBytes(std::int64_t row) const;

  WeightSource source_;
  std::int64_t rows_;
  std::int64_t cols_;
  bool whole_groups_;
};

// The parts of one weight, stacked along the rows; errors name the part. InvalidArgument if there
// are none, WeightRows::Create refuses one, or one has other columns than the first.
absl::StatusOr<std::vector<WeightRows>> CheckWeightParts(std::span<const WeightSource> parts);

}  // namespace thresher
