// A fixture for tests of the real model, SmolLM2-135M-Instruct (see test_environment.h).
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/support/test_environment.h"

namespace thresher::testing {

// Skips its tests without the model's file, and fails them if THRESHER_REQUIRE_MODEL is 1.
class RealModelFixture : public ::testing::Test {
 protected:
  // One that needs the file itself returns if `model_path_` is empty after this.
  void SetUp() override {
    const std::optional<std::string> path = RealModelPath();
    if (path.has_value()) {
      model_path_ = *path;
      return;
    }
    ASSERT_FALSE(RealModelIsRequired())
        << "THRESHER_REQUIRE_MODEL is 1, but there is no SmolLM2 file";
    GTEST_SKIP() << "no SmolLM2 file; THRESHER_TEST_MODEL may name it";
  }

  std::string model_path_;
};

}  // namespace thresher::testing
