#include "engine/attention/published_thresholds.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace thresher {
namespace {

struct Entry {
  double value = 0;
  std::int64_t samples = 0;
};

// What a file holds of one head, by row length, and a layer's k.
struct PublishedFile {
  std::vector<std::vector<std::map<int, Entry>>> heads;  // [num_layers][num_heads]
  std::vector<int> layer_k;                              // 0: none yet
};

absl::Status Wrong(const char* what, int line, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(what, ", line ", line, ": ", why));
}

// "L3_H5:128" as layer, head and n.
bool ParsePlace(absl::string_view text, int& layer, int& head, int& n) {
  if (!absl::ConsumePrefix(&text, "L")) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::ByAnyChar("_:"));
  return parts.size() == 3 && absl::SimpleAtoi(parts[0], &layer) &&
         absl::StartsWith(parts[1], "H") && absl::SimpleAtoi(parts[1].substr(1), &head) &&
         absl::SimpleAtoi(parts[2], &n);
}

absl::StatusOr<PublishedFile> Parse(const char* what, std::string_view text, bool has_k,
                                    const ModelConfig& config) {
  PublishedFile file;
  file.heads.resize(static_cast<std::size_t>(config.num_layers));
  for (auto& heads : file.heads) heads.resize(static_cast<std::size_t>(config.num_heads));
  file.layer_k.resize(file.heads.size());
  const std::size_t num_fields = has_k ? 4 : 3;
  int number = 0;
  const absl::string_view bytes(text.data(), text.size());
  for (const absl::string_view line : absl::StrSplit(bytes, '\n')) {
    ++number;
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (fields.empty()) continue;
    if (fields.size() != num_fields) {
      return Wrong(what, number, absl::StrCat(fields.size(), " fields instead of ", num_fields));
    }
    int layer = -1, head = -1, n = 0, k = 0;
    Entry entry;
    if (!ParsePlace(fields[0], layer, head, n)) {
      return Wrong(what, number, "it does not begin with L<layer>_H<head>:<n>");
    }
    if (layer < 0 || layer >= config.num_layers || head < 0 || head >= config.num_heads) {
      return Wrong(what, number,
                   absl::StrCat("layer ", layer, ", head ", head, ": the model has ",
                                config.num_layers, " and ", config.num_heads));
    }
    if (n < 1 || n > ThresholdLimits::kTokens) {
      return Wrong(what, number,
                   absl::StrCat("n is ", n, ", expected 1 to ", int{ThresholdLimits::kTokens}));
    }
    if (!absl::SimpleAtod(fields[1], &entry.value) || !std::isfinite(entry.value)) {
      return Wrong(what, number, "the value is no finite number");
    }
    if (!absl::SimpleAtoi(fields[2], &entry.samples) || entry.samples < 0) {
      return Wrong(what, number, "num_samples is no count");
    }
    const auto index = static_cast<std::size_t>(layer);
    if (has_k) {
      if (!absl::SimpleAtoi(fields[3], &k) || k < 1 || k > ThresholdLimits::kTokens) {
        return Wrong(what, number, "k is not 1 or more");
      }
      if (file.layer_k[index] != 0 && file.layer_k[index] != k) {
        return Wrong(what, number,
                     absl::StrCat("layer ", layer, " has k ", file.layer_k[index], " and ", k));
      }
      file.layer_k[index] = k;
    }
    if (!file.heads[index][static_cast<std::size_t>(head)].emplace(n, entry).second) {
      return Wrong(what, number, absl::StrCat("n ", n, " of this head came before"));
    }
  }
  for (std::size_t layer = 0; layer < file.heads.size(); ++layer) {
    for (std::size_t head = 0; head < file.heads[layer].size(); ++head) {
      if (!file.heads[layer][head].empty()) continue;
      return absl::FailedPreconditionError(
          absl::StrCat(what, ": no line for layer ", layer, ", head ", head, "; the model has ",
                       config.num_layers, " layers of ", config.num_heads,
                       " heads, so it is another model's or unfinished"));
    }
  }
  return file;
}

// The entry of the nearest n; of two, the smaller's.
const Entry& Nearest(const std::map<int, Entry>& entries, int n) {
  const auto above = entries.lower_bound(n);
  if (above == entries.end()) return std::prev(above)->second;
  if (above == entries.begin() || above->first == n) return above->second;
  const auto below = std::prev(above);
  return n - below->first <= above->first - n ? below->second : above->second;
}

// Lengths at which a nearest-n lookup over the grid is that of every head.
std::vector<std::int32_t> LengthsOf(const PublishedFile& file) {
  std::set<std::int32_t> all;
  bool equal = true;
  for (const auto& heads : file.heads) {
    for (const auto& head : heads) {
      for (const auto& [n, entry] : head) all.insert(n);
    }
  }
  for (const auto& heads : file.heads) {
    for (const auto& head : heads) equal = equal && head.size() == all.size();
  }
  if (equal) return {all.begin(), all.end()};
  std::vector<std::int32_t> every;
  for (std::int32_t n = *all.begin(); n <= *all.rbegin(); ++n) every.push_back(n);
  return every;
}

// [num_layers, num_k, num_n, num_heads], the same at each k.
template <typename Value>
std::vector<float> Spread(const PublishedFile& file, std::size_t num_k,
                          const std::vector<std::int32_t>& lengths, const Value& value) {
  std::vector<float> values;
  values.reserve(file.heads.size() * file.heads[0].size() * num_k * lengths.size());
  for (const auto& heads : file.heads) {
    for (std::size_t k = 0; k < num_k; ++k) {
      for (const std::int32_t n : lengths) {
        for (const auto& head : heads) {
          values.push_back(static_cast<float>(value(Nearest(head, n).value)));
        }
      }
    }
  }
  return values;
}

}  // namespace

absl::StatusOr<ThresholdContents> ImportPublishedThresholds(std::string_view thresholds,
                                                            std::string_view denominators,
                                                            ThresholdPlacement placement,
                                                            const ModelConfig& config,
                                                            ModelFingerprint fingerprint) {
  if (placement == ThresholdPlacement::kCentred) {
    return absl::InvalidArgumentError("placement: the published format has pre and post only");
  }
  const absl::StatusOr<PublishedFile> file = Parse("thresholds", thresholds, true, config);
  if (!file.ok()) return file.status();
  ThresholdContents table;
  table.fingerprint = std::move(fingerprint);
  table.num_layers = config.num_layers;
  table.num_heads = config.num_heads;
  table.num_kv_heads = config.num_kv_heads;
  table.head_dim = config.head_dim;
  table.lookup = ThresholdLookup::kNearest;
  const std::set<std::int32_t> targets(file->layer_k.begin(), file->layer_k.end());
  table.k.assign(targets.begin(), targets.end());
  table.n = LengthsOf(*file);
  const std::int64_t all = static_cast<std::int64_t>(table.k.size() * table.n.size()) *
                           config.num_layers * config.num_heads;
  if (all > ThresholdLimits::kThresholds) {
    return absl::InvalidArgumentError(absl::StrCat("thresholds: they fill ", all,
                                                   " cells, the limit is ",
                                                   std::int64_t{ThresholdLimits::kThresholds}));
  }
  for (const std::int32_t n : table.n) {
    const auto found = file->heads[0][0].find(n);
    table.samples.push_back(found == file->heads[0][0].end() ? 0 : found->second.samples);
  }
  PlacementThresholds& made = table.placements[static_cast<std::size_t>(placement)];
  const bool post = placement == ThresholdPlacement::kPost;
  bool positive = true;
  made.theta = Spread(*file, table.k.size(), table.n, [&](double theta) {
    if (!post) return theta;
    positive = positive && theta > 0;
    return std::log(theta);
  });
  if (!positive) {
    return absl::InvalidArgumentError("thresholds: a probability is not above 0");
  }
  made.slope.resize(made.theta.size() / table.n.size());
  if (!denominators.empty()) {
    const absl::StatusOr<PublishedFile> sums = Parse("denominators", denominators, false, config);
    if (!sums.ok()) return sums.status();
    made.dropped =
        Spread(*sums, table.k.size(), table.n, [](double sum) { return std::max(sum, 0.0); });
  }
  if (absl::Status status = table.Validate(); !status.ok()) return status;
  return table;
}

}  // namespace thresher
