#include "server/requests/api_keys.h"

#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"

namespace thresher {
namespace {

const absl::Time kNow = absl::UnixEpoch() + absl::Hours(1);

TEST(ApiKeysTest, WithoutAFileEveryoneMay) {
  const auto keys = ApiKeys::Open("", {"off"});
  ASSERT_TRUE(keys.ok());
  EXPECT_TRUE((*keys)->Check("", kNow).ok());
}

TEST(ApiKeysTest, TakesOnlyWholeKeys) {
  const testing::TempFolder folder;
  const auto keys = ApiKeys::Open(
      folder.Write("keys", "# staff\nsecret-one level=off\n\nsecret-two # b\n"), {"off"});
  ASSERT_TRUE(keys.ok()) << keys.status();
  const auto granted = (*keys)->Check("Bearer secret-one", kNow);
  ASSERT_TRUE(granted.ok()) << granted.status();
  EXPECT_EQ(granted->level, "off");
  EXPECT_TRUE((*keys)->Check("bearer secret-two", kNow).ok());
  for (const char* bad : {"", "Bearer ", "Bearer secret", "Bearer secret-onex", "Bearer secret-on",
                          "secret-one", "Basic secret-one", "Bearer secret-onesecret-one"}) {
    EXPECT_EQ((*keys)->Check(bad, kNow).status().code(), absl::StatusCode::kUnauthenticated) << bad;
  }
}

TEST(ApiKeysTest, LimitsOpenRequestsOfAKey) {
  const testing::TempFolder folder;
  const auto keys = ApiKeys::Open(folder.Write("keys", "k max_requests=2\n"), {"off"});
  ASSERT_TRUE(keys.ok());
  auto first = (*keys)->Check("Bearer k", kNow);
  const auto second = (*keys)->Check("Bearer k", kNow);
  EXPECT_TRUE(first.ok() && second.ok());
  EXPECT_EQ((*keys)->Check("Bearer k", kNow).status().code(), absl::StatusCode::kResourceExhausted);
  first->lease.reset();
  EXPECT_TRUE((*keys)->Check("Bearer k", kNow).ok());
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

TEST(ApiKeysTest, ReadsAChangedFileAgainAndKeepsTheOldOneIfItIsBad) {
  const testing::TempFolder folder;
  const std::string path = folder.Write("keys", "old\n");
  const auto keys = ApiKeys::Open(path, {"off"});
  ASSERT_TRUE(keys.ok());
  ASSERT_TRUE((*keys)->Check("Bearer old", kNow).ok());
  folder.Write("keys", "new\n");
  std::filesystem::last_write_time(
      path, std::filesystem::last_write_time(path) + std::chrono::seconds(5));
  EXPECT_TRUE((*keys)->Check("Bearer new", kNow + absl::Seconds(2)).ok());
  EXPECT_FALSE((*keys)->Check("Bearer old", kNow + absl::Seconds(2)).ok());
  folder.Write("keys", "");
  std::filesystem::last_write_time(
      path, std::filesystem::last_write_time(path) + std::chrono::seconds(15));
  EXPECT_TRUE((*keys)->Check("Bearer new", kNow + absl::Seconds(4)).ok());
}

}  // namespace
}  // namespace thresher
