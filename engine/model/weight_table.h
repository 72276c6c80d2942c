// The weights that a model must have, and where they lie once a file has been opened.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/model_config.h"
#include "kernels/ops/packed_weight.h"

namespace thresher {

struct ExpectedWeight {
  std::string name;  // Hugging Face's
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  bool is_vector = false;  // stored with one dimension: a norm [1, n] or a bias [n, 1]
};

// Every weight of a model of this configuration, in the order in which layers use them.
std::vector<ExpectedWeight> ExpectedWeights(const ModelConfig& config);

// A weight as a file stores it.
struct StoredWeight {
  WeightFormat format{};
  std::vector<std::int64_t> shape;
  const std::byte* bytes = nullptr;
  std::int64_t num_bytes = 0;
};

// The weights of an opened model by name. Immutable once filled; any thread.
class WeightTable final {
 public:
  // InvalidArgument naming the weight and both shapes if `stored` is not what is expected.
  absl::Status Add(const ExpectedWeight& expected, const StoredWeight& stored,
                   std::span<const std::int32_t> row_order);
  absl::StatusOr<WeightSource> Find(std::string_view name) const;
  bool Has(std::string_view name) const;
  std::int64_t total_bytes() const { return total_bytes_; }

 private:
  std::unordered_map<std::string, WeightSource> sources_;
  std::int64_t total_bytes_ = 0;
};

}  // namespace thresher
