// Tokens that stay on the device: Sample keeps them, a later Embed looks them up.
#include "tests/support/random_weight.h"
#include "tests/support/sampling_fixture.h"

namespace thresher {
namespace {

class DrawnTokens : public SamplingFixture {
 protected:
  static constexpr int kRows = 30, kCols = 64;

  void SetUp() override {
    SamplingFixture::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(backend_->ops().ReserveDraws(4).ok());
    table_ = backend_->ops().PackEmbedding(weight_.source()).value();
  }

  absl::StatusOr<std::vector<float>> Embed(const std::vector<std::int32_t>& ids) {
    std::vector<float> out(ids.size() * kCols, -1);
    const absl::Status status = backend_->ops().Embed(
        *table_, ids,
        TensorView::Of(out.data(), DType::kF32, static_cast<std::int64_t>(ids.size()), kCols),
        *stream_);
    if (!status.ok()) return status;
    return out;
  }

  // Logits whose largest is that of `token`.
  static std::vector<float> Favouring(int token) {
    std::vector<float> logits(kRows, 0);
    logits[static_cast<std::size_t>(token)] = 5;
    return logits;
  }

  const RandomWeight weight_ = RandomWeight::Make(WeightFormat::kF32, kRows, kCols, 11);
  std::unique_ptr<PackedWeight> table_;
};

TEST_P(DrawnTokens, AreEmbeddedWithoutTheHost) {
  SamplingRow row;
  row.temperature = 0;
  row.draw = 2;
  ASSERT_EQ(SampleOne(Favouring(17), row).token, 17);
  row.draw = 0;
  ASSERT_EQ(SampleOne(Favouring(29), row).token, 29);
  EXPECT_EQ(Embed({DrawnToken(0), 5, DrawnToken(2), DrawnToken(2)}).value(),
            Embed({29, 5, 17, 17}).value());
  // The last draw holds.
  ASSERT_EQ(SampleOne(Favouring(3), row).token, 3);
  EXPECT_EQ(Embed({DrawnToken(0), DrawnToken(2)}).value(), Embed({3, 17}).value());
}

TEST_P(DrawnTokens, ARowThatDrawsNothingKeepsTokenZero) {
  SamplingRow row;
  row.temperature = 0;
  row.draw = 1;
  ASSERT_EQ(SampleOne(Favouring(17), row).token, 17);
  ASSERT_FALSE(SampleOne(std::vector<float>(kRows, NAN), row).valid);
  EXPECT_EQ(Embed({DrawnToken(1)}).value(), Embed({0}).value());
  ASSERT_EQ(SampleOne(Favouring(17), row).token, 17);
  row.top_p = -1;
  const SampledToken refused = SampleOne(Favouring(17), row);
  EXPECT_FALSE(refused.valid);
  EXPECT_STREQ(refused.bad_field, "top_p");
  EXPECT_EQ(Embed({DrawnToken(1)}).value(), Embed({0}).value());
}

TEST_P(DrawnTokens, ADrawThatThereIsNoRoomForIsRefused) {
  SamplingRow row;
  row.draw = 4;
  std::vector<float> logits = Favouring(1);
  std::vector<SampledToken> out(1);
  const absl::Status status = backend_->ops().Sample(
      TensorView::Of(logits.data(), DType::kF32, 1, kRows), std::span(&row, 1), out, *stream_);
  EXPECT_EQ(status, absl::InvalidArgumentError("sample: draw is 4, expected -1 to 3"));
  EXPECT_EQ(Embed({DrawnToken(4)}).status().code(), absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Backends, DrawnTokens, testing::ValuesIn(TestedBackends()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace thresher
