#include "engine/model/safetensors_folder.h"

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/field_reader.h"

namespace thresher {
namespace {

constexpr std::size_t kMaxIndexBytes = 32 << 20;

// The index may not lead out of its folder.
bool IsPlainFileName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// {"weight_map": {"tensor name": "file name", ...}}, turned round.
absl::StatusOr<std::map<std::string, std::vector<std::string>>> ReadIndex(const std::string& path) {
  absl::StatusOr<std::string> text = ReadTextFile(path, kMaxIndexBytes);
  if (!text.ok()) return text.status();
  nlohmann::json index;
  if (absl::Status status = ParseJsonObject(*text, path, index); !status.ok()) return status;
  const auto weight_map = index.find("weight_map");
  if (weight_map == index.end() || !weight_map->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": weight_map is not an object"));
  }
  std::map<std::string, std::vector<std::string>> names_by_file;
  for (const auto& [name, file] : weight_map->items()) {
    if (!file.is_string() || !IsPlainFileName(file.get<std::string>())) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": weight_map['", name, "'] is not a file name"));
    }
    names_by_file[file.get<std::string>()].push_back(name);
  }
  return names_by_file;
}

}  // namespace

absl::StatusOr<SafetensorsFolder> SafetensorsFolder::Open(const std::string& folder) {
  SafetensorsFolder opened;
  absl::StatusOr<std::unique_ptr<SafetensorsFile>> single =
      SafetensorsFile::Open(folder + "/model.safetensors");
  if (single.ok()) {
    for (const auto& [name, tensor] : (*single)->tensors()) opened.tensors_[name] = &tensor;
    opened.files_.push_back(*std::move(single));
    return opened;
  }
  if (!absl::IsNotFound(single.status())) return single.status();

  const std::string index_path = folder + "/model.safetensors.index.json";
  absl::StatusOr<std::map<std::string, std::vector<std::string>>> index = ReadIndex(index_path);
  if (absl::IsNotFound(index.status())) {
    return absl::NotFoundError(
        absl::StrCat(folder, ": has neither model.safetensors nor model.safetensors.index.json"));
  }
  if (!index.ok()) return index.status();
  for (const auto& [file_name, names] : *index) {
    absl::StatusOr<std::unique_ptr<SafetensorsFile>> file =
        SafetensorsFile::Open(folder + "/" + file_name);
    if (!file.ok()) return file.status();
    for (const std::string& name : names) {
      const SafetensorsTensor* tensor = (*file)->Find(name);
      if (tensor == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(index_path, ": names '", name, "' in ",
                                                       file_name, ", which does not hold it"));
      }
      opened.tensors_[name] = tensor;
    }
    opened.files_.push_back(*std::move(file));
  }
  return opened;
}

void SafetensorsFolder::ReleasePages() const {
  for (const std::unique_ptr<SafetensorsFile>& file : files_) file->ReleasePages();
}

}  // namespace thresher
