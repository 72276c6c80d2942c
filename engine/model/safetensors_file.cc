#include "engine/model/safetensors_file.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/field_reader.h"

namespace thresher {
namespace {

using TensorMap = std::unordered_map<std::string, SafetensorsTensor>;

// Thousands of times what the largest known model's header takes; parsed JSON costs several times
// its text in memory.
constexpr std::uint64_t kMaxHeaderBytes = 32 << 20;
constexpr int kMaxRank = 8;
constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 48;

absl::StatusOr<WeightFormat> FormatOf(const std::string& name, const std::string& dtype) {
  if (dtype == "F32") return WeightFormat::kF32;
  if (dtype == "F16") return WeightFormat::kF16;
  if (dtype == "BF16") return WeightFormat::kBF16;
  return absl::UnimplementedError(absl::StrCat("tensor '", name, "' has dtype '",
                                               dtype.substr(0, 40),
                                               "'; this engine reads F32, F16 and BF16"));
}

bool ReadUnsigned(const nlohmann::json& value, std::uint64_t& number) {
  if (!value.is_number_unsigned()) return false;
  number = value.get<std::uint64_t>();
  return true;
}

absl::Status WrongTensor(const std::string& name, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "': ", what));
}

// One entry of the header: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}.
absl::StatusOr<SafetensorsTensor> ReadTensor(const std::string& name, const nlohmann::json& entry,
                                             std::span<const std::byte> data) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
      !entry.contains("shape") || !entry["shape"].is_array() || !entry.contains("data_offsets") ||
      !entry["data_offsets"].is_array()) {
    return WrongTensor(name, "lacks dtype, shape or data_offsets");
  }
  absl::StatusOr<WeightFormat> format = FormatOf(name, entry["dtype"].get<std::string>());
  if (!format.ok()) return format.status();
  SafetensorsTensor tensor{.format = *format, .shape = {}, .bytes = {}};
  if (entry["shape"].size() > kMaxRank) {
    return WrongTensor(name, absl::StrCat("has more than ", kMaxRank, " dimensions"));
  }
  std::uint64_t elements = 1;
  for (const nlohmann::json& dimension : entry["shape"]) {
    std::uint64_t size = 0;
    if (!ReadUnsigned(dimension, size) || size > kMaxElements ||
        (size > 0 && elements > kMaxElements / size)) {
      return WrongTensor(name, "has a shape that is negative, not whole or too large");
    }
    elements *= size;
    tensor.shape.push_back(static_cast<std::int64_t>(size));
  }
  const nlohmann::json& offsets = entry["data_offsets"];
  std::uint64_t begin = 0, end = 0;
  if (offsets.size() != 2 || !ReadUnsigned(offsets[0], begin) || !ReadUnsigned(offsets[1], end) ||
      begin > end) {
    return WrongTensor(name, "data_offsets are not a begin and an end");
  }
  if (end > data.size()) {
    return WrongTensor(
        name, absl::StrCat("ends at byte ", end, " of the data, the file has ", data.size()));
  }
  const std::uint64_t expected = elements * static_cast<std::uint64_t>(BlockBytes(*format));
  if (end - begin != expected) {
    return WrongTensor(
        name, absl::StrCat("has ", end - begin, " bytes, its shape and dtype need ", expected));
  }
  tensor.bytes = data.subspan(begin, expected);
  return tensor;
}

// Nothing before the first tensor, between two, or after the last.
absl::Status CheckNoHoles(const TensorMap& tensors, std::span<const std::byte> data) {
  std::vector<TensorMap::const_iterator> order;
  order.reserve(tensors.size());
  for (auto it = tensors.begin(); it != tensors.end(); ++it) order.push_back(it);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    const std::byte* const begin_a = a->second.bytes.data();
    const std::byte* const begin_b = b->second.bytes.data();
    return begin_a != begin_b ? begin_a < begin_b : a->second.bytes.size() < b->second.bytes.size();
  });
  const std::byte* next = data.data();
  for (const auto& it : order) {
    const std::span<const std::byte> bytes = it->second.bytes;
    if (bytes.data() != next) {
      return WrongTensor(
          it->first, bytes.data() < next ? "overlaps another tensor" : "leaves a hole before it");
    }
    next += bytes.size();
  }
  if (next != data.data() + data.size()) {
    return absl::InvalidArgumentError(absl::StrCat(data.data() + data.size() - next,
                                                   " bytes after the last tensor belong to none"));
  }
  return absl::OkStatus();
}

// nlohmann's parser keeps the last of two equal keys; which tensor is meant is then a guess.
absl::StatusOr<nlohmann::json> ParseHeader(std::string_view text) {
  std::set<std::string> names;
  std::string repeated;
  const auto watch_names = [&](int depth, nlohmann::json::parse_event_t event,
                               nlohmann::json& value) {
    if (depth == 1 && event == nlohmann::json::parse_event_t::key &&
        !names.insert(value.get<std::string>()).second) {
      repeated = value.get<std::string>();
    }
    return true;
  };
  nlohmann::json header = nlohmann::json::parse(text.begin(), text.end(), watch_names, false);
  if (header.is_discarded() || !header.is_object()) {
    return absl::InvalidArgumentError("the header is not a JSON object");
  }
  if (!repeated.empty()) return WrongTensor(repeated, "appears twice");
  return header;
}

absl::StatusOr<TensorMap> ReadTensors(std::span<const std::byte> file) {
  std::uint64_t header_bytes = 0;
  if (file.size() < sizeof header_bytes) {
    return absl::InvalidArgumentError("too short to be a safetensors file");
  }
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  const std::span<const std::byte> rest = file.subspan(sizeof header_bytes);
  if (header_bytes > rest.size() || header_bytes > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("claims a header of ", header_bytes, " bytes, the file has ", rest.size(),
                     " and the limit is ", kMaxHeaderBytes, "; is it a safetensors file?"));
  }
  const std::string_view text(reinterpret_cast<const char*>(rest.data()), header_bytes);
  if (text.empty() || text[0] != '{') {
    return absl::InvalidArgumentError("the header does not start with '{'");
  }
  absl::StatusOr<nlohmann::json> header = ParseHeader(text);
  if (!header.ok()) return header.status();
  const std::span<const std::byte> data = rest.subspan(header_bytes);
  TensorMap tensors;
  for (const auto& [name, entry] : header->items()) {
    if (name == "__metadata__") continue;
    absl::StatusOr<SafetensorsTensor> tensor = ReadTensor(name, entry, data);
    if (!tensor.ok()) return tensor.status();
    tensors.emplace(name, *std::move(tensor));
  }
  if (absl::Status status = CheckNoHoles(tensors, data); !status.ok()) return status;
  return tensors;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  absl::StatusOr<std::unique_ptr<MappedFile>> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  absl::StatusOr<TensorMap> tensors = ReadTensors((*file)->bytes());
  if (!tensors.ok()) {
    return absl::Status(tensors.status().code(),
                        absl::StrCat(path, ": ", tensors.status().message()));
  }
  return std::unique_ptr<SafetensorsFile>(
      new SafetensorsFile(*std::move(file), *std::move(tensors)));
}

const SafetensorsTensor* SafetensorsFile::Find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

}  // namespace thresher
