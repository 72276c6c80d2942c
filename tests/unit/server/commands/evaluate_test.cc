// `thresher evaluate` that chooses on some texts and reports on others, with the real model.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/commands/commands.h"
#include "tests/support/real_model_fixture.h"
#include "tests/support/temp_folder.h"

namespace thresher {
namespace {

class EvaluateCommandTest : public testing::RealModelFixture {
 protected:
  void SetUp() override {
    RealModelFixture::SetUp();
    for (const char* name : {"tuned.txt", "reported.txt"}) {
      std::string text;
      for (int i = 0; i < 14; ++i) {
        text += std::string(name) + " has a line of its own, number " + std::to_string(i) + ".\n";
      }
      folder_.Write(name, text);
    }
  }

  // With two choices: one reads 64 keys of each row, one a single key.
  int Run(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {
        "--model",
        model_path_,
        "--window-tokens",
        "128",
        "--prompt-tokens",
        "32",
        "--first-position",
        "64",
        "--json",
        json_path(),
        "--attention",
        R"(most:{"decode":{"policy":"top_k","k":64,"compensates":1}})",
        R"(one:{"decode":{"policy":"top_k","k":1}})"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunEvaluate(arguments);
  }
  std::string json_path() const { return folder_.path() + "/out.json"; }
  nlohmann::json Report() const {
    std::ifstream file(json_path());
    return nlohmann::json::parse(file, nullptr, false);
  }

  testing::TempFolder folder_;
};

TEST_F(EvaluateCommandTest, ReportsTheCheapestChoiceThatHoldsOnOtherTexts) {
  const std::string tuned = folder_.path() + "/tuned.txt";
  const std::string reported = folder_.path() + "/reported.txt";
  // Any loss will do: the choice that reads least.
  ASSERT_EQ(Run({"--tune-on", tuned, "--report-on", reported, "--max-loss", "1e9"}), 0);
  nlohmann::json report = Report();
  EXPECT_EQ(report["texts"], nlohmann::json({"reported.txt"}));
  ASSERT_EQ(report["choices"].size(), 1u);
  EXPECT_EQ(report["choices"][0]["name"], "one");
  EXPECT_GT(report["choices"][0]["kl"]["mean"], 0);
  // A single key loses far more than this.
  ASSERT_EQ(Run({"--tune-on", tuned, "--report-on", reported, "--max-loss", "0.2"}), 0);
  report = Report();
  ASSERT_EQ(report["choices"].size(), 1u);
  EXPECT_EQ(report["choices"][0]["name"], "most");
}

TEST_F(EvaluateCommandTest, SaysSoIfNoChoiceHolds) {
  const std::string tuned = folder_.path() + "/tuned.txt";
  EXPECT_EQ(Run({"--tune-on", tuned, "--report-on", tuned, "--max-loss", "-1"}), 1);
}

TEST_F(EvaluateCommandTest, TextsAreGivenOneWayOrTheOther) {
  const std::string text = folder_.path() + "/tuned.txt";
  EXPECT_EQ(Run({"--tune-on", text}), 2);
  EXPECT_EQ(Run({"--tune-on", text, "--report-on", text, "--text", text}), 2);
  EXPECT_EQ(Run({}), 2);
}

}  // namespace
}  // namespace thresher
