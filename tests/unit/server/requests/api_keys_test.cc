#include "server/requests/api_keys.h"

#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"

namespace thresher {
namespace {

const absl::Time kNow = absl::UnixEpoch() + absl::Hours(1);

TEST(ApiKeysTest, WithoutAFileEveryoneMay) {
  const auto keys = ApiKeys::Open("", {"off"});
  ASSERT_TRUE(keys.ok());
  EXPECT_TRUE((*keys)->Check("").ok());
}

TEST(ApiKeysTest, TakesOnlyWholeKeys) {
  const testing::TempFolder folder;
  const auto keys = ApiKeys::Open(
      folder.Write("keys", "# staff\nsecret-one level=off\n\nsecret-two # b\n"), {"off"});
  ASSERT_TRUE(keys.ok()) << keys.status();
  const auto granted = (*keys)->Check("Bearer secret-one");
  ASSERT_TRUE(granted.ok()) << granted.status();
  EXPECT_EQ(granted->level, "off");
  EXPECT_TRUE((*keys)->Check("bearer secret-two").ok());
  for (const char* bad : {"", "Bearer ", "Bearer secret", "Bearer secret-onex", "Bearer secret-on",
                          "secret-one", "Basic secret-one", "Bearer secret-onesecret-one"}) {
    EXPECT_EQ((*keys)->Check(bad).status().code(), absl::StatusCode::kUnauthenticated) << bad;
  }
}

TEST(ApiKeysTest, LimitsOpenRequestsOfAKey) {
  const testing::TempFolder folder;
  const auto keys = ApiKeys::Open(folder.Write("keys", "k max_requests=2\n"), {"off"});
  ASSERT_TRUE(keys.ok());
  auto first = (*keys)->Check("Bearer k");
  const auto second = (*keys)->Check("Bearer k");
  EXPECT_TRUE(first.ok() && second.ok());
  EXPECT_EQ((*keys)->Check("Bearer k").status().code(), absl::StatusCode::kResourceExhausted);
  first->lease.reset();
  EXPECT_TRUE((*keys)->Check("Bearer k").ok());
}

TEST(ApiKeysTest, RefusesBadFilesByLine) {
  const testing::TempFolder folder;
  for (const char* text :
       {"k level=fast\n", "k max_requests=0\n", "k max_requests=x\n", "k what\n"}) {
    const auto keys = ApiKeys::Open(folder.Write("keys", text), {"off"});
    ASSERT_FALSE(keys.ok()) << text;
    EXPECT_NE(std::string(keys.status().message()).find("keys:1:"), std::string::npos);
  }
  EXPECT_FALSE(ApiKeys::Open(folder.Write("keys", "# none\n"), {"off"}).ok());
  EXPECT_EQ(ApiKeys::Open(folder.path() + "/none", {"off"}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(ApiKeysTest, RefusesAKeyThatIsThereTwice) {
  const testing::TempFolder folder;
  const auto keys = ApiKeys::Open(folder.Write("keys", "a\nb max_requests=1\n# c\nb\n"), {"off"});
  EXPECT_EQ(keys.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(keys.status().message()).find("keys:4: this key is in line 2 already"),
            std::string::npos)
      << keys.status();
  EXPECT_EQ(std::string(keys.status().message()).find("b max"), std::string::npos);
}

TEST(ApiKeysTest, ReadsAChangedFileAgainAndKeepsTheOldOneIfItIsBad) {
  const testing::TempFolder folder;
  const std::string path = folder.Write("keys", "old\n");
  const auto keys = ApiKeys::Open(path, {"off"});
  ASSERT_TRUE(keys.ok());
  ASSERT_TRUE((*keys)->Check("Bearer old").ok());
  folder.Write("keys", "new\n");
  std::filesystem::last_write_time(
      path, std::filesystem::last_write_time(path) + std::chrono::seconds(5));
  // A request does not look at the file.
  EXPECT_TRUE((*keys)->Check("Bearer old").ok());
  (*keys)->Refresh(kNow);
  EXPECT_TRUE((*keys)->Check("Bearer new").ok());
  EXPECT_FALSE((*keys)->Check("Bearer old").ok());
  int seconds = 15;
  for (const char* bad : {"", "other\nother\n", "other level=fast\n"}) {
    folder.Write("keys", bad);
    std::filesystem::last_write_time(
        path, std::filesystem::last_write_time(path) + std::chrono::seconds(seconds));
    (*keys)->Refresh(kNow + absl::Seconds(seconds));
    EXPECT_TRUE((*keys)->Check("Bearer new").ok());
    EXPECT_FALSE((*keys)->Check("Bearer other").ok());
    seconds += 10;
  }
}

// What the model cannot serve must not come in by the back door.
TEST(ApiKeysTest, AChangedFileMustGiveLevelsThatCanBeServed) {
  const testing::TempFolder folder;
  const std::string path = folder.Write("keys", "old level=off\n");
  const auto keys = ApiKeys::Open(path, {"off", "light"});
  ASSERT_TRUE(keys.ok());
  (*keys)->AllowLevels({"off"});
  int seconds = 5;
  for (const char* level : {"light", "off"}) {
    folder.Write("keys", std::string("new level=") + level + "\n");
    std::filesystem::last_write_time(
        path, std::filesystem::last_write_time(path) + std::chrono::seconds(seconds));
    (*keys)->Refresh(kNow + absl::Seconds(seconds));
    EXPECT_EQ((*keys)->Check("Bearer new").ok(), std::string(level) == "off");
    seconds += 10;
  }
}

}  // namespace
}  // namespace thresher
