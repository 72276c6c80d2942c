#include "engine/model/gguf_file.h"

#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/gguf_parser.h"
#include "engine/model/mapped_file.h"

namespace thresher {
namespace {

template <typename T>
T Load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

std::optional<std::int64_t> LoadInt(GgufType type, const std::byte* bytes) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kBool:
      return Load<std::uint8_t>(bytes);
    case GgufType::kInt8:
      return Load<std::int8_t>(bytes);
    case GgufType::kUint16:
      return Load<std::uint16_t>(bytes);
    case GgufType::kInt16:
      return Load<std::int16_t>(bytes);
    case GgufType::kUint32:
      return Load<std::uint32_t>(bytes);
    case GgufType::kInt32:
      return Load<std::int32_t>(bytes);
    case GgufType::kInt64:
      return Load<std::int64_t>(bytes);
    case GgufType::kUint64: {
      const auto value = Load<std::uint64_t>(bytes);
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return std::nullopt;
      }
      return static_cast<std::int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> LoadFloat(GgufType type, const std::byte* bytes) {
  if (type == GgufType::kFloat32) return Load<float>(bytes);
  if (type == GgufType::kFloat64) return Load<double>(bytes);
  const std::optional<std::int64_t> integer = LoadInt(type, bytes);
  return integer.has_value() ? std::optional<double>(static_cast<double>(*integer)) : std::nullopt;
}

std::string_view Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class MappedGgufFile final : public GgufFile {
 public:
  MappedGgufFile(std::unique_ptr<MappedFile> file, GgufContents contents)
      : file_(std::move(file)), contents_(std::move(contents)) {}

  std::optional<std::int64_t> Int(std::string_view key) const override {
    const GgufValue* value = Find(key);
    return value == nullptr ? std::nullopt : LoadInt(value->type, value->bytes.data());
  }

  std::optional<double> Float(std::string_view key) const override {
    const GgufValue* value = Find(key);
    return value == nullptr ? std::nullopt : LoadFloat(value->type, value->bytes.data());
  }

  std::optional<std::string_view> String(std::string_view key) const override {
    const GgufValue* value = Find(key);
    if (value == nullptr || value->type != GgufType::kString) return std::nullopt;
    return Text(value->bytes);
  }

  std::optional<std::vector<std::string_view>> Strings(std::string_view key) const override {
    const GgufValue* value = FindArray(key);
    if (value == nullptr || value->element_type != GgufType::kString) return std::nullopt;
    std::vector<std::string_view> strings;
    strings.reserve(value->count);
    std::size_t offset = 0;
    for (std::uint64_t i = 0; i < value->count; ++i) {
      const auto length = Load<std::uint64_t>(value->bytes.data() + offset);
      strings.push_back(Text(value->bytes.subspan(offset + 8, length)));
      offset += 8 + length;
    }
    return strings;
  }

  std::optional<std::vector<std::int64_t>> Ints(std::string_view key) const override {
    return Numbers<std::int64_t>(key, LoadInt);
  }

  std::optional<std::vector<float>> Floats(std::string_view key) const override {
    return Numbers<float>(key, LoadFloat);
  }

  std::span<const GgufTensor> tensors() const override { return contents_.tensors; }

  const GgufTensor* FindTensor(std::string_view name) const override {
    const auto found = contents_.tensor_index.find(name);
    return found == contents_.tensor_index.end() ? nullptr : &contents_.tensors[found->second];
  }

  void ReleasePages() const override { file_->ReleasePages(); }

 private:
  const GgufValue* Find(std::string_view key) const {
    const auto found = contents_.metadata.find(key);
    return found == contents_.metadata.end() ? nullptr : &found->second;
  }

  const GgufValue* FindArray(std::string_view key) const {
    const GgufValue* value = Find(key);
    return value != nullptr && value->type == GgufType::kArray ? value : nullptr;
  }

  template <typename T, typename LoadOne>
  std::optional<std::vector<T>> Numbers(std::string_view key, LoadOne load) const {
    const GgufValue* value = FindArray(key);
    if (value == nullptr) return std::nullopt;
    const auto step = static_cast<std::size_t>(GgufTypeBytes(value->element_type));
    if (step == 0) return std::nullopt;
    std::vector<T> numbers;
    numbers.reserve(value->count);
    for (std::uint64_t i = 0; i < value->count; ++i) {
      const auto number = load(value->element_type, value->bytes.data() + i * step);
      if (!number.has_value()) return std::nullopt;
      numbers.push_back(static_cast<T>(*number));
    }
    return numbers;
  }

  std::unique_ptr<MappedFile> file_;
  GgufContents contents_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) {
  absl::StatusOr<std::unique_ptr<MappedFile>> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  absl::StatusOr<GgufContents> contents = ParseGguf((*file)->bytes());
  if (!contents.ok()) {
    return absl::Status(contents.status().code(),
                        absl::StrCat(path, ": ", contents.status().message()));
  }
  return std::make_unique<MappedGgufFile>(*std::move(file), *std::move(contents));
}

}  // namespace thresher
