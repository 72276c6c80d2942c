#include "server/requests/api_keys.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <system_error>
#include <unordered_map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/config/text_file.h"

namespace thresher {
namespace {

constexpr absl::Duration kLookInterval = absl::Seconds(1);

std::int64_t ModifiedAt(const std::string& path) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error);
  return error ? 0 : static_cast<std::int64_t>(time.time_since_epoch().count());
}

// Looks at every byte of the candidate whatever the first difference.
bool EqualInConstantTime(std::string_view candidate, std::string_view key) {
  volatile unsigned difference = candidate.size() == key.size() ? 0 : 1;
  for (std::size_t i = 0; i < candidate.size(); ++i) {
    const unsigned char other = key.empty() ? 0 : key[i % key.size()];
    difference = difference | (static_cast<unsigned char>(candidate[i]) ^ other);
  }
  return difference == 0;
}

std::string_view KeyOf(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size()) return {};
  for (std::size_t i = 0; i < kScheme.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(authorization[i])) != kScheme[i]) return {};
  }
  return authorization.substr(kScheme.size());
}

}  // namespace

ApiKeys::ApiKeys(std::string path, std::vector<std::string> level_names)
    : path_(std::move(path)), level_names_(std::move(level_names)) {}

absl::StatusOr<std::unique_ptr<ApiKeys>> ApiKeys::Open(const std::string& path,
                                                       std::vector<std::string> level_names) {
  std::unique_ptr<ApiKeys> keys(new ApiKeys(path, std::move(level_names)));
  if (path.empty()) return keys;
  keys->modified_ = ModifiedAt(path);
  absl::StatusOr<std::vector<Key>> read = keys->Read();
  if (!read.ok()) return read.status();
  keys->keys_ = *std::move(read);
  return keys;
}

absl::StatusOr<std::vector<ApiKeys::Key>> ApiKeys::Read() const {
  const absl::StatusOr<std::string> text = ReadFileOf("--api-keys", path_);
  if (!text.ok()) return text.status();
  std::istringstream file(*text);
  std::vector<Key> keys;
  std::unordered_map<std::string, int> line_of;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    Key key;
    if (!(words >> key.text)) continue;
    // Which of the two lines would count?
    const auto [first, is_new] = line_of.emplace(key.text, number);
    if (!is_new) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ":", number, ": this key is in line ", first->second, " already"));
    }
    std::string word;
    while (words >> word) {
      if (word.compare(0, 6, "level=") == 0) {
        key.level = word.substr(6);
        if (std::find(level_names_.begin(), level_names_.end(), key.level) == level_names_.end()) {
          return absl::InvalidArgumentError(absl::StrCat(path_, ":", number, ": level '", key.level,
                                                         "' is not one that this server can give"));
        }
      } else if (word.compare(0, 13, "max_requests=") == 0 &&
                 absl::SimpleAtoi(word.substr(13), &key.max_requests) && key.max_requests > 0) {
        key.open = std::make_shared<std::atomic<int>>(0);
      } else {
        return absl::InvalidArgumentError(absl::StrCat(
            path_, ":", number, ": expected level=NAME or max_requests=N after the key"));
      }
    }
    keys.push_back(std::move(key));
  }
  if (keys.empty()) return absl::InvalidArgumentError(absl::StrCat(path_, " holds no key"));
  return keys;
}

std::vector<std::string> ApiKeys::Levels() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> levels;
  for (const Key& key : keys_) {
    if (key.level.empty() || std::find(levels.begin(), levels.end(), key.level) != levels.end()) {
      continue;
    }
    levels.push_back(key.level);
  }
  return levels;
}

void ApiKeys::Refresh(absl::Time now) {
  if (path_.empty() || now - last_look_ < kLookInterval) return;
  last_look_ = now;
  const std::int64_t modified = ModifiedAt(path_);
  if (modified == modified_) return;
  modified_ = modified;
  absl::StatusOr<std::vector<Key>> read = Read();
  if (!read.ok()) {
    // A damaged file must not open the server nor shut out those who have keys.
    std::clog << "level=warning event=api_keys_unchanged error=\"" << read.status().message()
              << "\"\n";
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Key& fresh : *read) {
    for (const Key& old : keys_) {
      if (old.text == fresh.text && old.open != nullptr && fresh.open != nullptr) {
        fresh.open = old.open;
      }
    }
  }
  keys_ = *std::move(read);
}

absl::StatusOr<KeyGrant> ApiKeys::Check(std::string_view authorization) {
  if (path_.empty()) return KeyGrant{};
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string_view candidate = KeyOf(authorization);
  const Key* found = nullptr;
  for (const Key& key : keys_) {
    if (EqualInConstantTime(candidate, key.text)) found = &key;
  }
  if (found == nullptr) {
    return absl::UnauthenticatedError(candidate.empty() ? "no API key was given"
                                                        : "the API key is not valid");
  }
  KeyGrant grant;
  grant.level = found->level;
  if (found->open != nullptr) {
    if (found->open->fetch_add(1) >= found->max_requests) {
      found->open->fetch_sub(1);
      return absl::ResourceExhaustedError(
          absl::StrCat("this API key has ", found->max_requests, " open requests, its limit"));
    }
    grant.lease =
        std::shared_ptr<void>(nullptr, [open = found->open](void*) { open->fetch_sub(1); });
  }
  return grant;
}

}  // namespace thresher
