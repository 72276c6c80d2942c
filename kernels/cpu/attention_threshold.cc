#include "kernels/cpu/attention_threshold.h"

#include <cmath>
#include <cstring>
#include <variant>

#include "kernels/cpu/attention_call.h"
#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/attention_threshold_plan.h"
#include "kernels/cpu/attention_threshold_run.h"
#include "kernels/cpu/attention_threshold_unit.h"
#include "kernels/device/shape_check.h"

namespace thresher {
namespace {

constexpr const char* kOp = "attention";

absl::Status CheckGrid(const SelectAboveThreshold& selection, const AttentionBatch& batch) {
  const ThresholdGrid& grid = selection.grid;
  absl::Status status = CheckCount(kOp, "grid.num_heads", grid.num_heads, batch.num_heads);
  if (status.ok()) {
    status = CheckRange(kOp, "grid.log_k.size", static_cast<std::int64_t>(grid.log_k.size()), 1,
                        1 << 20);
  }
  if (status.ok()) {
    status = CheckRange(kOp, "grid.log_n.size", static_cast<std::int64_t>(grid.log_n.size()), 1,
                        1 << 20);
  }
  if (!status.ok()) return status;
  if (grid.theta == nullptr) {
    return absl::InvalidArgumentError("attention: grid.theta has no data");
  }
  if (grid.lookup == ThresholdLookup::kBilinear && grid.slope == nullptr) {
    return absl::InvalidArgumentError("attention: grid.slope has no data");
  }
  if (selection.denominator == DroppedDenominator::kCalibrated && grid.dropped == nullptr) {
    return absl::InvalidArgumentError(
        "attention: grid.dropped has no data, which the calibrated denominator needs");
  }
  return status;
}

absl::Status CheckForms(const SelectAboveThreshold& selection) {
  const bool of_one_head = selection.denominator == DroppedDenominator::kExponential ||
                           selection.denominator == DroppedDenominator::kCalibrated;
  if (of_one_head && selection.promotes) {
    return absl::InvalidArgumentError(
        "attention: an exponential or calibrated denominator does not go with promotes");
  }
  if (!(selection.gamma >= 0) || !std::isfinite(selection.gamma)) {
    return absl::InvalidArgumentError("attention: gamma is negative or not finite");
  }
  return absl::OkStatus();
}

absl::Status CheckTargets(const SelectAboveThreshold& selection, const AttentionBatch& batch) {
  absl::Status status =
      CheckCount(kOp, "targets.size", static_cast<std::int64_t>(selection.targets.size()),
                 batch.num_sequences());
  for (const std::int32_t target : selection.targets) {
    if (status.ok()) status = CheckRange(kOp, "targets", target, 0, INT32_MAX);
  }
  return status;
}

absl::Status CheckSums(const SelectAboveThreshold& selection, const AttentionLayer& layer) {
  const TensorView& k = layer.cache.k;
  absl::Status status;
  if (selection.placement == ThresholdPlacement::kCentred) {
    status = CheckTensor(kOp, "cache.k_sums", layer.cache.k_sums, {DType::kF32},
                         {k.shape[0], k.shape[1], k.shape[3]});
  }
  if (status.ok() && selection.value_mean != ValueMean::kOff) {
    status = CheckTensor(kOp, "cache.v_sums", layer.cache.v_sums, {DType::kF32},
                         {k.shape[0], k.shape[1], k.shape[3]});
  }
  return status;
}

class AttentionThreshold final : public AttentionKernel {
 public:
  AttentionThreshold(AttentionPhase phase, DType kv_dtype, const ThresholdLoopTables& loops,
                     std::int64_t wave_bytes, ThreadTeam& team)
      : key_{AttentionMechanism::kAboveThreshold, phase, kv_dtype, 0},
        loops_(loops),
        wave_bytes_(wave_bytes),
        team_(team) {}

  AttentionKey key() const override { return key_; }

  std::size_t WorkspaceBytes(const AttentionBatch& largest) const override {
    return LayoutOf(largest).total;
  }

  absl::Status Plan(const AttentionBatch& batch, DeviceBuffer& workspace, Stream&,
                    AttentionPlan& plan) const override {
    absl::Status status = CheckAttentionBatch(batch);
    if (!status.ok()) return status;
    plan.batch = batch;
    PlanThresholdUnits(key_.phase, plan);
    const ThresholdWorkspace layout = LayoutOf(batch);
    status = TakeAttentionWorkspace(workspace, layout.total, plan);
    if (!status.ok()) return status;
    std::memset(plan.workspace, 0, layout.partials);
    return absl::OkStatus();
  }

  absl::Status Run(const AttentionPlan& plan, const AttentionLayer& layer,
                   const KvSelection& selection, Stream&) const override {
    const auto* above = std::get_if<SelectAboveThreshold>(&selection);
    if (above == nullptr && !std::holds_alternative<SelectAll>(selection)) {
      return absl::InvalidArgumentError(
          "attention: the kernel of mechanism `above threshold` carries out SelectAboveThreshold "
          "and SelectAll alone");
    }
    absl::Status status = CheckAttentionLayer(plan, layer, key_.kv_dtype);
    if (above != nullptr) {
      if (status.ok()) status = CheckTargets(*above, plan.batch);
      if (status.ok()) status = CheckGrid(*above, plan.batch);
      if (status.ok()) status = CheckForms(*above);
      if (status.ok()) status = CheckSums(*above, layer);
    }
    if (!status.ok()) return status;
    ThresholdRun(key_.phase, plan, layer, above, loops_, LayoutOf(plan.batch), team_).Run();
    return absl::OkStatus();
  }

 private:
  ThresholdWorkspace LayoutOf(const AttentionBatch& batch) const {
    return LayOutThreshold(key_.phase, batch, wave_bytes_, team_.num_threads());
  }

  const AttentionKey key_;
  const ThresholdLoopTables loops_;
  const std::int64_t wave_bytes_;
  ThreadTeam& team_;
};

}  // namespace

std::vector<std::unique_ptr<AttentionKernel>> MakeAttentionThresholdKernels(
    CpuIsa isa, bool full_precision, ThreadTeam& team, std::int64_t wave_bytes) {
  // Scores are compared in f32, so products in bf16 are out of the question.
  const ThresholdLoopTables loops = {
      AttentionLoopsFor(isa, full_precision),
      isa == CpuIsa::kAvx2 ? AttentionThresholdLoopsAvx2() : AttentionThresholdLoopsAvx512()};
  std::vector<std::unique_ptr<AttentionKernel>> kernels;
  for (const AttentionPhase phase : {AttentionPhase::kPrefill, AttentionPhase::kDecode}) {
    for (const DType kv_dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
      kernels.push_back(
          std::make_unique<AttentionThreshold>(phase, kv_dtype, loops, wave_bytes, team));
    }
  }
  return kernels;
}

}  // namespace thresher
