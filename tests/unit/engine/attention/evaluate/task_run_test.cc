// The tasks of an evaluation, answered by the serving engine with the real model.
#include "engine/attention/evaluate/task_run.h"

#include <gtest/gtest.h>

#include "engine/attention/evaluate/synthetic_tasks.h"
#include "tests/support/real_model_fixture.h"

namespace thresher {
namespace {

class TaskRunTest : public testing::RealModelFixture {
 protected:
  void SetUp() override {
    RealModelFixture::SetUp();
    options_.model_path = model_path_;
    options_.backend.max_isa = testing::TestMaxIsa();
    std::string text;
    for (int i = 0; i < 40; ++i) text += "The rain fell on the roof of house " + std::to_string(i);
    options_.texts = {{"rain", text}};
    options_.num_tasks = 1;
    options_.task_tokens = 64;
  }

  EvaluateOptions options_;
};

TEST_F(TaskRunTest, EveryChoiceAnswersTheSameTasks) {
  AttentionChoice one_key;
  one_key.decode = {"top_k", {{"k", 1}}};
  AttentionSettings no_dense_layer;
  no_dense_layer.top_theta.layers = {};
  options_.choices = {{"dense", {}, {}}, {"one key", one_key, no_dense_layer}};
  EvaluationReport report;
  report.choices.resize(2);
  const absl::Status status = RunTasks(options_, report);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(report.dense_tasks.size(), std::size(kAllTaskKinds));
  for (std::size_t i = 0; i < report.dense_tasks.size(); ++i) {
    EXPECT_EQ(report.dense_tasks[i].first, Name(kAllTaskKinds[i]));
  }
  // The model finds a number in a hundred tokens; a head that reads one key alone does not.
  EXPECT_EQ(report.dense_tasks[0].second, 1);
  EXPECT_EQ(report.choices[0].tasks, report.dense_tasks);
  ASSERT_EQ(report.choices[1].tasks.size(), report.dense_tasks.size());
  EXPECT_LT(report.choices[1].tasks[0].second, 1);
}

TEST_F(TaskRunTest, ATaskThatDoesNotFitIsNamed) {
  options_.task_tokens = 1 << 16;
  for (int i = 0; i < 12; ++i) options_.texts[0].text += options_.texts[0].text;
  options_.choices = {{"dense", {}, {}}};
  EvaluationReport report;
  report.choices.resize(1);
  const absl::Status status = RunTasks(options_, report);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()).substr(0, 15), "needle_single: ") << status;
}

}  // namespace
}  // namespace thresher
