#include "engine/attention/threshold_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/attention/content_hash.h"
#include "engine/attention/write_file.h"
#include "engine/model/byte_cursor.h"
#include "engine/model/mapped_file.h"

namespace thresher {
namespace {

constexpr std::string_view kMagic = "THRTABLE";
constexpr std::uint32_t kVersion = 1;
constexpr std::array<const char*, kNumPlacements> kPlacementNames = {"pre", "centred", "post"};

// Which optional arrays follow, bit by bit.
constexpr std::uint32_t kHasValues = 1u << 16;
constexpr std::uint32_t PlacementBit(std::size_t p) { return 1u << p; }
constexpr std::uint32_t DroppedBit(std::size_t p) { return 1u << (kNumPlacements + p); }
constexpr std::uint32_t GammaBit(std::size_t p) { return 1u << (2 * kNumPlacements + p); }

std::uint32_t PartsOf(const ThresholdContents& table) {
  std::uint32_t parts = table.values.mean.empty() ? 0 : kHasValues;
  for (std::size_t p = 0; p < table.placements.size(); ++p) {
    const PlacementThresholds& placement = table.placements[p];
    if (!placement.theta.empty()) parts |= PlacementBit(p);
    if (!placement.dropped.empty()) parts |= DroppedBit(p);
    if (!placement.gamma.empty()) parts |= GammaBit(p);
  }
  return parts;
}

class Writer final {
 public:
  template <typename T>
  void Number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void Text(std::string_view text) {
    Number<std::uint64_t>(text.size());
    bytes_.append(text);
  }
  template <typename T>
  void Array(const std::vector<T>& values) {
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_ = std::string(kMagic);
};

std::string Encode(const ThresholdContents& table) {
  Writer out;
  out.Number(kVersion);
  out.Number(PartsOf(table));
  out.Number(static_cast<std::uint32_t>(table.lookup));
  for (const int size : {table.num_layers, table.num_heads, table.num_kv_heads, table.head_dim}) {
    out.Number(static_cast<std::uint32_t>(size));
  }
  out.Number(static_cast<std::uint32_t>(table.k.size()));
  out.Number(static_cast<std::uint32_t>(table.n.size()));
  out.Number(static_cast<std::uint32_t>(table.fingerprint.fields.size()));
  for (const ModelFingerprint::Field& field : table.fingerprint.fields) {
    out.Text(field.name);
    out.Text(field.value);
  }
  out.Array(table.k);
  out.Array(table.n);
  out.Array(table.samples);
  for (const PlacementThresholds& placement : table.placements) {
    if (placement.theta.empty()) continue;
    out.Array(placement.theta);
    out.Array(placement.slope);
    out.Array(placement.dropped);
    out.Array(placement.gamma);
  }
  const ValueMoments& values = table.values;
  for (const auto* list :
       {&values.mean, &values.std, &values.centred_mean, &values.centred_std, &values.mean_value}) {
    out.Array(*list);
  }
  ContentHash hash;
  hash.Add(out.bytes());
  out.Number(hash.value());
  return std::move(out.bytes());
}

// Keeps the first error; later reads do nothing.
class Reader final {
 public:
  explicit Reader(std::span<const std::byte> bytes) : cursor_(bytes) {}

  std::uint32_t Count(const char* field, std::uint32_t limit) {
    const auto value = Number(field);
    if (status_.ok() && value > limit) {
      status_ = absl::InvalidArgumentError(absl::StrCat(field, ": ", value, " exceeds ", limit));
    }
    return status_.ok() ? value : 0;
  }
  std::uint32_t Number(const char* field) {
    if (!status_.ok()) return 0;
    const absl::StatusOr<std::uint32_t> value = cursor_.Number<std::uint32_t>(field);
    status_ = value.status();
    return status_.ok() ? *value : 0;
  }
  std::string Text(const char* field) {
    if (!status_.ok()) return {};
    const absl::StatusOr<std::string_view> text = cursor_.String(field);
    status_ = text.status();
    if (status_.ok() && text->size() > ThresholdLimits::kFieldBytes) {
      status_ = absl::InvalidArgumentError(absl::StrCat(field, ": ", text->size(), " bytes exceed ",
                                                        int{ThresholdLimits::kFieldBytes}));
    }
    return status_.ok() ? std::string(*text) : std::string();
  }
  template <typename T>
  void Array(const std::string& field, std::uint64_t count, std::vector<T>& values) {
    if (!status_.ok()) return;
    const auto bytes = cursor_.Take(count * sizeof(T), field.c_str());
    status_ = bytes.status();
    if (!status_.ok()) return;
    values.resize(count);
    if (count > 0) std::memcpy(values.data(), bytes->data(), bytes->size());
  }
  std::uint64_t remaining() const { return cursor_.remaining(); }
  const absl::Status& status() const { return status_; }

 private:
  ByteCursor cursor_;
  absl::Status status_;
};

void ReadSizes(Reader& in, ThresholdContents& table, std::uint32_t& num_k, std::uint32_t& num_n) {
  using Limits = ThresholdLimits;
  table.lookup =
      in.Count("lookup", 1) == 0 ? ThresholdLookup::kBilinear : ThresholdLookup::kNearest;
  table.num_layers = static_cast<int>(in.Count("layers", Limits::kLayers));
  table.num_heads = static_cast<int>(in.Count("heads", Limits::kHeads));
  table.num_kv_heads = static_cast<int>(in.Count("KV heads", Limits::kHeads));
  table.head_dim = static_cast<int>(in.Count("head_dim", Limits::kHeadDim));
  num_k = in.Count("the number of k", Limits::kTargets);
  num_n = in.Count("the number of n", Limits::kLengths);
  const std::uint32_t num_fields = in.Count("fingerprint fields", Limits::kFields);
  for (std::uint32_t i = 0; i < num_fields && in.status().ok(); ++i) {
    ModelFingerprint::Field field;
    field.name = in.Text("fingerprint name");
    field.value = in.Text("fingerprint value");
    table.fingerprint.fields.push_back(std::move(field));
  }
}

void ReadArrays(Reader& in, std::uint32_t parts, std::uint64_t num_k, std::uint64_t num_n,
                ThresholdContents& table) {
  // Every factor is below its limit, so the products stay far below 2^64.
  const auto layers = static_cast<std::uint64_t>(table.num_layers);
  const std::uint64_t per_k = layers * num_k * static_cast<std::uint64_t>(table.num_heads);
  const std::uint64_t all = per_k * num_n;
  const std::uint64_t values = layers * static_cast<std::uint64_t>(table.num_kv_heads);
  in.Array("k", num_k, table.k);
  in.Array("n", num_n, table.n);
  in.Array("samples", num_n, table.samples);
  for (std::size_t p = 0; p < table.placements.size(); ++p) {
    if ((parts & PlacementBit(p)) == 0) continue;
    PlacementThresholds& placement = table.placements[p];
    const std::string name = absl::StrCat(kPlacementNames[p], ".");
    in.Array(name + "theta", all, placement.theta);
    in.Array(name + "slope", per_k, placement.slope);
    if ((parts & DroppedBit(p)) != 0) in.Array(name + "dropped", all, placement.dropped);
    if ((parts & GammaBit(p)) != 0) in.Array(name + "gamma", per_k, placement.gamma);
  }
  if ((parts & kHasValues) == 0) return;
  in.Array("values.mean", values, table.values.mean);
  in.Array("values.std", values, table.values.std);
  in.Array("values.centred_mean", values, table.values.centred_mean);
  in.Array("values.centred_std", values, table.values.centred_std);
  in.Array("values.mean_value", values * static_cast<std::uint64_t>(table.head_dim),
           table.values.mean_value);
}

absl::Status CheckChecksum(std::span<const std::byte> file) {
  ContentHash hash;
  hash.Add(file.first(file.size() - sizeof(std::uint64_t)));
  std::uint64_t stored = 0;
  std::memcpy(&stored, file.data() + file.size() - sizeof(stored), sizeof(stored));
  if (stored == hash.value()) return absl::OkStatus();
  return absl::InvalidArgumentError("checksum: the file is damaged");
}

}  // namespace

absl::StatusOr<ThresholdContents> ParseThresholdFile(std::span<const std::byte> file) {
  const std::string_view head(reinterpret_cast<const char*>(file.data()),
                              std::min(file.size(), kMagic.size()));
  if (head != kMagic) {
    return absl::InvalidArgumentError(
        "magic: this is not a threshold table; `thresher calibrate` makes one, or converts one "
        "from the published text format");
  }
  Reader in(file.subspan(kMagic.size()));
  const std::uint32_t version = in.Number("version");
  if (in.status().ok() && version != kVersion) {
    return absl::InvalidArgumentError(absl::StrCat("version: ", version, "; this program reads ",
                                                   kVersion, ", so calibrate again"));
  }
  ThresholdContents table;
  std::uint32_t num_k = 0, num_n = 0;
  const std::uint32_t parts = in.Number("parts");
  ReadSizes(in, table, num_k, num_n);
  ReadArrays(in, parts, num_k, num_n, table);
  if (!in.status().ok()) return in.status();
  if (in.remaining() != sizeof(std::uint64_t)) {
    return absl::InvalidArgumentError(
        absl::StrCat("checksum: ", in.remaining(), " bytes at the end instead of 8"));
  }
  if (absl::Status status = CheckChecksum(file); !status.ok()) return status;
  // A part that the flags name may still be an empty array, which the next write would drop.
  if (absl::Status status = table.Validate(); !status.ok()) return status;
  if (PartsOf(table) != parts) {
    return absl::InvalidArgumentError(absl::StrCat("parts: ", parts, " is no set of parts"));
  }
  return table;
}

absl::StatusOr<ThresholdContents> ReadThresholdFile(const std::string& path) {
  const absl::StatusOr<std::unique_ptr<MappedFile>> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  absl::StatusOr<ThresholdContents> table = ParseThresholdFile((*file)->bytes());
  if (!table.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", std::string(table.status().message())));
  }
  return table;
}

absl::Status WriteThresholdFile(const ThresholdContents& table, const std::string& path) {
  if (absl::Status status = table.Validate(); !status.ok()) return status;
  return WriteWholeFile(path, Encode(table));
}

}  // namespace thresher
