// Every kernel of mechanism `above threshold` against the double reference: each placement with
// each form of the denominator and of the mean, for every instruction set that the machine has.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "tests/support/cpu_backends.h"
#include "tests/support/reference/threshold_reference.h"

namespace thresher {
namespace {

struct Forms {
  ThresholdPlacement placement;
  DroppedDenominator denominator;
  ValueMean value_mean;
  bool promotes;
};

std::vector<Forms> AllForms() {
  using P = ThresholdPlacement;
  using D = DroppedDenominator;
  std::vector<Forms> forms;
  for (const P placement : {P::kPre, P::kCentred, P::kPost}) {
    for (const D denominator : {D::kNone, D::kExact, D::kExponential, D::kCalibrated}) {
      for (const ValueMean mean : {ValueMean::kOff, ValueMean::kAll, ValueMean::kDropped}) {
        forms.push_back({placement, denominator, mean, false});
        if (denominator == D::kNone || denominator == D::kExact) {
          forms.push_back({placement, denominator, mean, true});
        }
      }
    }
  }
  return forms;
}

std::string ToString(const Forms& forms) {
  return "placement " + std::to_string(static_cast<int>(forms.placement)) + ", denominator " +
         std::to_string(static_cast<int>(forms.denominator)) + ", mean " +
         std::to_string(static_cast<int>(forms.value_mean)) +
         (forms.promotes ? ", promotes" : ", strict");
}

class ThresholdConformanceTest : public testing::TestWithParam<CpuVariant> {
 protected:
  void SetUp() override {
    if (!MachineRuns(GetParam())) GTEST_SKIP() << "this machine lacks the instruction set";
    backend_ = MakeCpuBackend(GetParam());
  }

  template <typename Check>
  void ForEachKernel(const Check& check) {
    int checked = 0;
    for (const std::unique_ptr<AttentionKernel>& row : backend_->kernels().rows()) {
      if (row->key().mechanism != AttentionMechanism::kAboveThreshold) continue;
      check(*row);
      ++checked;
    }
    EXPECT_GE(checked, 6);
  }

  // Dense rows of a prefill may have products in bf16; they are compared bit by bit elsewhere.
  void ExpectConforms(const AttentionKernel& kernel, PagedAttentionShape shape,
                      const std::vector<PagedSequence>& sequences, const Forms& forms) {
    shape.kv_dtype = kernel.key().kv_dtype;
    PagedAttentionCase attention(shape, sequences);
    const bool post = forms.placement == ThresholdPlacement::kPost;
    std::vector<float> thresholds, denominators;
    for (int head = 0; head < shape.num_heads; ++head) {
      // Scores deviate by 1.5, so a tenth to a third survives; ln Σ exp(s) is about 1.1 + ln n.
      thresholds.push_back((post ? -5.5f : 1.0f) + 0.2f * static_cast<float>(head % 4));
      denominators.push_back(0.5f + static_cast<float>(head));
    }
    const FlatThresholds flat(thresholds, denominators);
    const std::vector<std::int32_t> targets(sequences.size(), 4);
    SelectAboveThreshold selection;
    selection.grid = flat.grid();
    selection.targets = targets;
    selection.placement = forms.placement;
    selection.denominator = forms.denominator;
    selection.value_mean = forms.value_mean;
    selection.gamma = 0.3f;
    selection.promotes = forms.promotes;
    const absl::StatusOr<std::vector<float>> out = attention.Run(kernel, *backend_, selection);
    ASSERT_TRUE(out.ok()) << out.status();
    const ThresholdReference reference = ComputeThresholdReference(attention, selection);
    EXPECT_LT(reference.ambiguous_share(), 0.5);
    for (std::size_t row = 0; row < reference.rows.size(); ++row) {
      const ThresholdRow& expected = reference.rows[row];
      if (expected.scores.size() <= 4) continue;
      for (int d = 0; d < shape.head_dim; ++d) {
        const float got = (*out)[row * shape.head_dim + d];
        // Not "greater": a NaN must fail.
        ASSERT_TRUE(std::fabs(got - expected.output[d]) <= expected.bound)
            << "row " << row << ", element " << d << " is " << got << ", reference "
            << expected.output[d] << ", bound " << expected.bound << ", survivors "
            << expected.num_survivors() << " of " << expected.scores.size() << "; "
            << ToString(forms) << "; head_dim " << shape.head_dim << ", " << shape.num_heads << "/"
            << shape.num_kv_heads << " heads, cache " << Name(shape.kv_dtype) << ", phase "
            << static_cast<int>(kernel.key().phase);
      }
    }
  }

  std::unique_ptr<Backend> backend_;
};

TEST_P(ThresholdConformanceTest, EveryPlacementDenominatorAndMean) {
  ForEachKernel([&](const AttentionKernel& kernel) {
    // All with the kernel of bf16 decode; with the others, which share its loops but for the loads,
    // every fifth.
    const bool all =
        kernel.key().phase == AttentionPhase::kDecode && kernel.key().kv_dtype == DType::kBF16;
    const std::vector<Forms> forms = AllForms();
    for (std::size_t i = 0; i < forms.size(); i += all ? 1 : 5) {
      ExpectConforms(kernel, {.num_heads = 3, .num_kv_heads = 1, .head_dim = 64, .block_size = 16},
                     {{230, 1, 1}, {70, 2, 2}}, forms[i]);
    }
  });
}

TEST_P(ThresholdConformanceTest, EveryGroupSizeHeadDimAndBlockSize) {
  ForEachKernel([&](const AttentionKernel& kernel) {
    int turn = 0;
    const std::vector<Forms> forms = AllForms();
    for (const int group_size : {1, 2, 3, 4, 8, 5}) {
      for (const int head_dim : {8, 64, 80, 128}) {
        // A prime stride takes every form in turn.
        turn += 7;
        ExpectConforms(kernel,
                       {.num_heads = 2 * group_size,
                        .num_kv_heads = 2,
                        .head_dim = head_dim,
                        .block_size = turn % 2 == 0 ? 16 : 64,
                        .out_dtype = turn % 3 == 0 ? DType::kBF16 : DType::kF32},
                       {{200, 1, 1}, {63, 2, 3}, {0, 7, 4}}, forms[turn % forms.size()]);
      }
    }
  });
}

TEST_P(ThresholdConformanceTest, LongRows) {
  ForEachKernel([&](const AttentionKernel& kernel) {
    for (const ThresholdPlacement placement :
         {ThresholdPlacement::kPre, ThresholdPlacement::kCentred, ThresholdPlacement::kPost}) {
      ExpectConforms(kernel, {.num_heads = 4, .num_kv_heads = 1, .head_dim = 64, .block_size = 64},
                     {{900, 1, 1}, {500, 2, 2}},
                     {placement, DroppedDenominator::kExact, ValueMean::kDropped, true});
    }
  });
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, ThresholdConformanceTest, testing::ValuesIn(kCpuVariants),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace thresher
