// The keys that clients must show, from a file that is read again when it changes.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace thresher {

// What a key allows. Held for as long as the request runs, since it counts in the key's limit.
struct KeyGrant {
  std::string level;            // default attention level; empty: the server's
  std::shared_ptr<void> lease;  // null without a limit
};

// Any thread. The file holds a key a line: KEY [level=NAME] [max_requests=N]; '#' starts a comment.
// No request waits for the file: one thread calls Refresh now and then.
class ApiKeys final {
 public:
  // An empty path: no keys are asked for. NotFound or InvalidArgument (file and line). Every level
  // must be one of `level_names`, and no key may come twice.
  static absl::StatusOr<std::unique_ptr<ApiKeys>> Open(const std::string& path,
                                                       std::vector<std::string> level_names);

  // The default levels of the keys as they are now, each once.
  std::vector<std::string> Levels();
  // From now on a key's level must be one of these. Of the thread that refreshes.
  void AllowLevels(std::vector<std::string> level_names) { level_names_ = std::move(level_names); }

  // `authorization` is the header's value, "Bearer KEY". Unauthenticated; ResourceExhausted if the
  // key has as many open requests as it may. The time of the comparison does not depend on how
  // much of a key is right.
  absl::StatusOr<KeyGrant> Check(std::string_view authorization);

  // Reads the file again if it has changed; looks at most once a second. The keys stay as they are,
  // and a line is logged, if the file has become bad. One thread at a time.
  void Refresh(absl::Time now);

 private:
  struct Key {
    std::string text;
    std::string level;
    int max_requests = 0;  // 0: no limit
    std::shared_ptr<std::atomic<int>> open;
  };
  ApiKeys(std::string path, std::vector<std::string> level_names);
  absl::StatusOr<std::vector<Key>> Read() const;

  const std::string path_;
  // Of the thread that refreshes.
  std::vector<std::string> level_names_;
  absl::Time last_look_ = absl::InfinitePast();
  std::int64_t modified_ = 0;  // of the file that was read, its clock's ticks

  std::mutex mutex_;
  std::vector<Key> keys_;  // under mutex_
};

}  // namespace thresher
