#include "kernels/cuda/attention/attention_all.h"

#include <utility>
#include <variant>

#include "kernels/cpu/attention_call.h"
#include "kernels/cpu/attention_plan.h"
#include "kernels/cuda/attention/all/config.h"
#include "kernels/cuda/attention/all/launch.h"
#include "kernels/cuda/attention/tensor_map.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/device/shape_check.h"

namespace thresher {
namespace {

// A row of the table: which cut the batch gets and what is launched for it.
struct AttentionRow {
  AttentionKey key;
  AttentionCut cut = AttentionCut::kQueries;
  PrefillLaunchFunction* prefill = nullptr;  // one of the two
  DecodeLaunchFunction* decode = nullptr;
};

class CudaAttentionAll final : public AttentionKernel {
 public:
  CudaAttentionAll(const AttentionRow& row, DType activation, int num_multiprocessors,
                   EncodeTensorMapFunction* encode, PlanUploader& uploader)
      : row_(row),
        activation_(activation),
        warps_(num_multiprocessors * (row.key.head_dim > 0 ? DecodeWarps(row.key.head_dim) : 0)),
        encode_(encode),
        uploader_(uploader) {}

  AttentionKey key() const override { return row_.key; }

  std::size_t WorkspaceBytes(const AttentionBatch& largest) const override {
    return LayOut(LargestSize(row_.cut, largest), largest).total;
  }

  absl::Status Plan(const AttentionBatch& batch, DeviceBuffer& workspace, Stream& stream,
                    AttentionPlan& plan) const override {
    absl::Status status = CheckAttentionBatch(batch);
    if (status.ok() && row_.key.head_dim != 0) {
      status = CheckCount("attention", "head_dim", batch.head_dim, row_.key.head_dim);
    }
    if (!status.ok()) return status;
    plan.batch = batch;
    PlanItems(row_.cut, warps_, plan);
    const CudaPlanSize size = SizeOf(plan);
    // The prefill kernel's launch has the number of its items.
    plan.launch_key = row_.cut == AttentionCut::kRowTiles ? 0 : LaunchKeyOf(size);
    return uploader_.Upload(row_.cut, LayOut(size, batch), workspace, plan, HandleOf(stream));
  }

  absl::Status Run(const AttentionPlan& plan, const AttentionLayer& layer,
                   const KvSelection& selection, Stream& stream) const override {
    if (!std::holds_alternative<SelectAll>(selection)) {
      return absl::InvalidArgumentError(
          "attention: the kernel of mechanism `all` carries out SelectAll alone");
    }
    absl::Status status = CheckAttentionLayer(plan, layer, row_.key.kv_dtype, activation_);
    if (!status.ok() || plan.items.empty()) return status;
    const AttentionLaunch launch = LaunchOf(plan, layer);
    if (row_.prefill == nullptr) {
      return CudaStatus(row_.decode(launch, HandleOf(stream)), "attention");
    }
    PrefillMaps maps;
    const int box_rows = BoxRows(plan.batch.block_size);
    status = EncodeCacheMap(encode_, layer.cache.k, box_rows, maps.k);
    if (status.ok()) status = EncodeCacheMap(encode_, layer.cache.v, box_rows, maps.v);
    if (!status.ok()) return status;
    return CudaStatus(row_.prefill(launch, maps, HandleOf(stream)), "attention");
  }

 private:
  AttentionLaunch LaunchOf(const AttentionPlan& plan, const AttentionLayer& layer) const {
    const AttentionBatch& batch = plan.batch;
    const CudaPlanSize size = SizeOf(plan);
    const CudaAttentionLayout layout = LayOut(size, batch);
    auto* workspace = static_cast<std::byte*>(plan.workspace);
    AttentionLaunch launch;
    launch.q = layer.q.data;
    launch.k = layer.cache.k.data;
    launch.v = layer.cache.v.data;
    launch.out = layer.out.data;
    launch.kv_dtype = layer.cache.k.dtype;
    launch.out_dtype = layer.out.dtype;
    launch.q_dtype = layer.q.dtype;
    launch.scale = layer.scale;
    launch.num_heads = batch.num_heads;
    launch.num_kv_heads = batch.num_kv_heads;
    launch.head_dim = batch.head_dim;
    launch.block_size = batch.block_size;
    launch.items = reinterpret_cast<const AttentionWorkItem*>(workspace + layout.items);
    launch.decode_items = reinterpret_cast<const DecodeItem*>(workspace + layout.items);
    launch.num_items = static_cast<std::int32_t>(row_.cut == AttentionCut::kRowTiles
                                                     ? static_cast<std::int64_t>(plan.items.size())
                                                     : size.items);
    launch.sequences = reinterpret_cast<const SequenceLaunch*>(workspace + layout.sequences);
    launch.block_tables = reinterpret_cast<const std::int32_t*>(workspace + layout.block_tables);
    launch.merge_start = reinterpret_cast<const std::int32_t*>(workspace + layout.merge_start);
    launch.partials = reinterpret_cast<float*>(workspace + layout.partials);
    launch.counters = reinterpret_cast<std::int32_t*>(workspace + layout.counters);
    return launch;
  }

  const AttentionRow row_;
  const DType activation_;
  const int warps_;  // of decode that the GPU holds at once
  EncodeTensorMapFunction* const encode_;
  PlanUploader& uploader_;
};

constexpr AttentionRow MatrixRow(DType kv_dtype, int head_dim, PrefillLaunchFunction* launch) {
  return {{AttentionMechanism::kAll, AttentionPhase::kPrefill, kv_dtype, head_dim},
          AttentionCut::kRowTiles,
          launch,
          nullptr};
}
constexpr AttentionRow MatrixRow(DType kv_dtype, int head_dim, DecodeLaunchFunction* launch) {
  return {{AttentionMechanism::kAll, AttentionPhase::kDecode, kv_dtype, head_dim},
          AttentionCut::kKeyRanges,
          nullptr,
          launch};
}
constexpr AttentionRow PlainRow(AttentionPhase phase, DType kv_dtype) {
  return {{AttentionMechanism::kAll, phase, kv_dtype, 0},
          AttentionCut::kQueries,
          nullptr,
          LaunchPlainRows};
}

// The first row that serves a key is taken.
constexpr AttentionRow kMatrixRows[] = {
    MatrixRow(DType::kBF16, 64, LaunchPrefillBf16Dim64),
    MatrixRow(DType::kBF16, 128, LaunchPrefillBf16Dim128),
    MatrixRow(DType::kF16, 64, LaunchPrefillF16Dim64),
    MatrixRow(DType::kF16, 128, LaunchPrefillF16Dim128),
    MatrixRow(DType::kBF16, 64, LaunchDecodeBf16Dim64),
    MatrixRow(DType::kBF16, 128, LaunchDecodeBf16Dim128),
    MatrixRow(DType::kF16, 64, LaunchDecodeF16Dim64),
    MatrixRow(DType::kF16, 128, LaunchDecodeF16Dim128),
};
constexpr AttentionRow kPlainRows[] = {
    PlainRow(AttentionPhase::kPrefill, DType::kBF16),
    PlainRow(AttentionPhase::kPrefill, DType::kF16),
    PlainRow(AttentionPhase::kPrefill, DType::kF32),
    PlainRow(AttentionPhase::kDecode, DType::kBF16),
    PlainRow(AttentionPhase::kDecode, DType::kF16),
    PlainRow(AttentionPhase::kDecode, DType::kF32),
};

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<AttentionKernel>>> MakeCudaAttentionAllKernels(
    bool full_precision, int num_multiprocessors, PlanUploader& uploader) {
  EncodeTensorMapFunction* encode = nullptr;
  if (absl::Status status = FindEncodeTensorMap(encode); !status.ok()) return status;
  const DType activation = full_precision ? DType::kF32 : DType::kBF16;
  std::vector<std::unique_ptr<AttentionKernel>> kernels;
  const auto add = [&](const AttentionRow& row) {
    kernels.push_back(
        std::make_unique<CudaAttentionAll>(row, activation, num_multiprocessors, encode, uploader));
  };
  if (!full_precision) {
    for (const AttentionRow& row : kMatrixRows) add(row);
  }
  for (const AttentionRow& row : kPlainRows) add(row);
  return kernels;
}

}  // namespace thresher
