// Writes small GGUF files for tests, damaged ones too: nothing is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/gguf_parser.h"

namespace thresher::testing {

// Counts follow what was added unless they are set; so do the tensors' offsets.
class GgufBuilder final {
 public:
  std::uint32_t magic = 0x46554747;
  std::uint32_t version = 3;
  std::uint32_t alignment = 32;  // of the data written; Add() the key if it is not 32
  std::int64_t claimed_entries = -1;
  std::int64_t claimed_tensors = -1;

  template <typename T>
  static std::string Bytes(T value) {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  }
  static std::string Text(std::string_view text) {
    return Bytes<std::uint64_t>(text.size()) + std::string(text);
  }

  // `value` is the value's bytes as the format has them.
  void Add(std::string_view key, GgufType type, std::string_view value) {
    metadata_ += Text(key) + Bytes(static_cast<std::uint32_t>(type)) + std::string(value);
    ++num_entries_;
  }
  void AddInt(std::string_view key, std::uint32_t value) {
    Add(key, GgufType::kUint32, Bytes(value));
  }
  void AddFloat(std::string_view key, float value) { Add(key, GgufType::kFloat32, Bytes(value)); }
  void AddBool(std::string_view key, bool value) {
    Add(key, GgufType::kBool, Bytes<std::uint8_t>(value));
  }
  void AddString(std::string_view key, std::string_view value) {
    Add(key, GgufType::kString, Text(value));
  }
  // `elements` is their bytes, one after the other.
  void AddArray(std::string_view key, GgufType element_type, std::uint64_t count,
                std::string_view elements) {
    Add(key, GgufType::kArray,
        Bytes(static_cast<std::uint32_t>(element_type)) + Bytes(count) + std::string(elements));
  }
  void AddStrings(std::string_view key, const std::vector<std::string>& values) {
    std::string elements;
    for (const std::string& value : values) elements += Text(value);
    AddArray(key, GgufType::kString, values.size(), elements);
  }

  // `shape` is innermost first, as the file has it; `offset` −1 puts it behind the one before.
  void AddTensor(std::string_view name, const std::vector<std::uint64_t>& shape, std::uint32_t type,
                 std::string_view bytes, std::int64_t offset = -1) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    tensors_ += Text(name) + Bytes(static_cast<std::uint32_t>(shape.size()));
    for (const std::uint64_t size : shape) tensors_ += Bytes(size);
    tensors_ += Bytes(type) + Bytes<std::uint64_t>(offset < 0 ? data_.size() : offset);
    data_ += bytes;
    ++num_tensors_;
  }

  std::string Build() const {
    std::string file = Bytes(magic) + Bytes(version) +
                       Bytes<std::uint64_t>(claimed_tensors < 0 ? num_tensors_ : claimed_tensors) +
                       Bytes<std::uint64_t>(claimed_entries < 0 ? num_entries_ : claimed_entries) +
                       metadata_ + tensors_;
    if (num_tensors_ > 0) file.resize((file.size() + alignment - 1) / alignment * alignment);
    return file + data_;
  }

 private:
  std::string metadata_, tensors_, data_;
  std::int64_t num_entries_ = 0, num_tensors_ = 0;
};

}  // namespace thresher::testing
