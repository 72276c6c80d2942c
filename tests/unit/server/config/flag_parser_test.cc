#include "server/config/flag_parser.h"

#include <gtest/gtest.h>

#include "server/config/defaults.h"
#include "tests/support/temp_folder.h"

namespace thresher {
namespace {

std::string ErrorOf(const std::vector<std::string>& arguments) {
  v1::ServeConfig config = DefaultServeConfig();
  const absl::Status status = ParseFlags(arguments, config);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(FlagParserTest, ReadsEveryTypeInBothForms) {
  v1::ServeConfig config = DefaultServeConfig();
  const absl::Status status = ParseFlags({"--model", "a b", "--http-port=0", "--kv-cache-tokens",
                                          "5000000000", "--vllm-metric-names", "--no-prefix-cache"},
                                         config);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(config.model(), "a b");
  EXPECT_EQ(config.http_port(), 0);
  EXPECT_EQ(config.kv_cache_tokens(), 5000000000);
  EXPECT_TRUE(config.vllm_metric_names());
  EXPECT_FALSE(config.prefix_cache());
}

TEST(FlagParserTest, ARepeatedFlagTakesValuesUpToTheNextFlag) {
  v1::EvaluateConfig config;
  const absl::Status status = ParseFlags(
      {"--text", "a", "b c", "--model", "m", "--text=d", "--attention", "light"}, config);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(config.model(), "m");
  ASSERT_EQ(config.text_size(), 3);
  EXPECT_EQ(config.text(1), "b c");
  EXPECT_EQ(config.text(2), "d");
  EXPECT_EQ(config.attention(0), "light");
  v1::EvaluateConfig other;
  EXPECT_EQ(ParseFlags({"--text"}, other).message(), "--text needs a value");
}

TEST(FlagParserTest, NamesTheFlagOfEachError) {
  EXPECT_EQ(ErrorOf({"--htp-port", "1"}), "unknown flag --htp-port");
  EXPECT_EQ(ErrorOf({"model"}), "'model' is not a flag");
  EXPECT_EQ(ErrorOf({"--model"}), "--model needs a value");
  EXPECT_EQ(ErrorOf({"--http-port", "80", "--http-port=81"}), "--http-port is given twice");
  EXPECT_EQ(ErrorOf({"--http-port", "80x"}),
            "--http-port is '80x'; it must be a 32-bit whole number");
  EXPECT_EQ(ErrorOf({"--no-prefix-cache=false"}), "--no-prefix-cache takes no value");
  EXPECT_EQ(ErrorOf({"--prefix-cache=maybe"}),
            "--prefix-cache is 'maybe'; it must be true or false");
  // A repeated message is a matter of the file.
  EXPECT_EQ(ErrorOf({"--level", "x"}), "unknown flag --level");
}

TEST(FlagParserTest, FlagsWinOverTheFileAndTheFileOverDefaults) {
  const testing::TempFolder folder;
  const std::string path = folder.Write("serve.txtpb", "http_port: 7\ngrpc_port: 8\n");
  v1::ServeConfig config = DefaultServeConfig();
  ASSERT_TRUE(ReadConfigFile(path, config).ok());
  ASSERT_TRUE(ParseFlags({"--http-port", "9"}, config).ok());
  EXPECT_EQ(config.http_port(), 9);
  EXPECT_EQ(config.grpc_port(), 8);
  EXPECT_EQ(config.max_running(), 256);
}

TEST(FlagParserTest, FileErrorsHaveAPlace) {
  const testing::TempFolder folder;
  const std::string path = folder.Write("bad.txtpb", "http_port: 7\nno_such_field: 1\n");
  v1::ServeConfig config;
  const absl::Status status = ReadConfigFile(path, config);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("bad.txtpb:2:"), std::string::npos) << status;
  EXPECT_EQ(ReadConfigFile(folder.path() + "/none", config).code(), absl::StatusCode::kNotFound);
  const absl::Status directory = ReadConfigFile(folder.path(), config);
  EXPECT_EQ(directory.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(directory.message(), "--config " + folder.path() + " is a directory, not a file");
}

TEST(FlagParserTest, HelpListsEachFlagWithItsDefault) {
  const std::string help = FlagHelp(DefaultServeConfig());
  EXPECT_NE(help.find("--http-port N"), std::string::npos);
  EXPECT_NE(help.find("(8000)"), std::string::npos);
  EXPECT_EQ(help.find("--level "), std::string::npos);
}

}  // namespace
}  // namespace thresher
