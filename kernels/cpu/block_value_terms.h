// The value term of block scores, from the squared norms of values. See ValueTerm.
#pragma once

#include <cstdint>

#include "kernels/ops/block_selector.h"

namespace thresher {

// groups[g] = ln(largest norm of group g + 1e-6), for `num_groups` groups of `stride` tokens.
void GroupLogNorms(const float* squares, int num_groups, int stride, float* groups);

// max(0, ln of the largest norm).
float RawValueTerm(const float* squares, int num_values);

// The mean over the groups of max(0, (group − mean) / std).
float NormalisedValueTerm(const float* groups, int num_groups, float mean, float std);

// Mean and unbiased deviation, plus 1e-6, of all the groups.
struct GroupStatistics {
  float mean = 0;
  float std = 0;
};
GroupStatistics StatisticsOf(const float* groups, std::int64_t num_groups);

}  // namespace thresher
