#include "kernels/cuda/gemm/skinny_gemm.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/gemm/launch.h"

namespace thresher {
namespace {

struct SkinnyKernel {
  int groups, batch;
  SkinnyLaunchFunction* launch;
};
constexpr SkinnyKernel kKernels[] = {
    {1, 8, LaunchSkinny1x8},   {1, 16, LaunchSkinny1x16}, {1, 32, LaunchSkinny1x32},
    {1, 64, LaunchSkinny1x64}, {2, 8, LaunchSkinny2x8},   {2, 16, LaunchSkinny2x16},
    {2, 32, LaunchSkinny2x32}, {2, 64, LaunchSkinny2x64}, {4, 8, LaunchSkinny4x8},
    {4, 16, LaunchSkinny4x16}, {4, 32, LaunchSkinny4x32}, {4, 64, LaunchSkinny4x64}};

// A matrix [rows, cols] of bf16 in boxes of [box_rows, 64] with the 128-byte swizzle; what lies
// past its end is zero.
absl::Status EncodeMatrix(EncodeTensorMapFunction* encode, const void* memory, std::int64_t rows,
                          std::int64_t cols, int box_rows, CUtensorMap& map) {
  const cuuint64_t size[2] = {static_cast<cuuint64_t>(cols), static_cast<cuuint64_t>(rows)};
  const cuuint64_t row_bytes[1] = {static_cast<cuuint64_t>(cols) * 2};
  const cuuint32_t box[2] = {64, static_cast<cuuint32_t>(box_rows)}, steps[2] = {1, 1};
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(memory), size, row_bytes,
             box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("mat_mul: the copy engine cannot read bf16[", rows,
                                                 ", ", cols, "]: error ",
                                                 static_cast<int>(result)));
}

}  // namespace

absl::StatusOr<SkinnyGemm> SkinnyGemm::Create(const CudaDevice& device) {
  EncodeTensorMapFunction* encode = nullptr;
  if (absl::Status status = FindEncodeTensorMap(encode); !status.ok()) return status;
  return SkinnyGemm(encode, device.num_multiprocessors(), device.shared_bytes_of_multiprocessor());
}

std::vector<SkinnyConfig> SkinnyGemm::Candidates(const GemmShape& shape, std::int64_t n) const {
  if (shape.dtype != DType::kBF16) return {};
  return SkinnyCandidates(shape.rows, shape.cols, n, num_processors_, bytes_of_processor_);
}

absl::Status SkinnyGemm::Run(const GemmShape& shape, const GemmCall& call,
                             const SkinnyConfig& config, cudaStream_t stream) const {
  const int batch = SkinnyBatch(call.n);
  const int stages = SkinnyStages(config, batch, bytes_of_processor_);
  if (call.n > kSkinnyMaxRows || stages < kSkinnyMinStages) {
    return absl::InvalidArgumentError(
        absl::StrCat("mat_mul: a configuration of ", config.groups, " warpgroups and ",
                     config.splits, " splits has no room for ", call.n, " rows of input"));
  }
  SkinnyLaunch launch;
  absl::Status status =
      EncodeMatrix(encode_, call.weight, shape.rows, shape.cols, 64 * config.groups, launch.weight);
  if (status.ok()) status = EncodeMatrix(encode_, call.x, call.n, shape.cols, batch, launch.x);
  if (!status.ok()) return status;
  launch.bias = call.bias;
  launch.out = call.out;
  launch.out_dtype = shape.out;
  launch.n = static_cast<std::int32_t>(call.n);
  launch.rows = static_cast<std::int32_t>(shape.rows);
  launch.config = config;
  launch.work = CutSkinny(config, shape.rows, shape.cols, num_processors_);
  launch.stages = stages;
  for (const SkinnyKernel& kernel : kKernels) {
    if (kernel.groups != config.groups || kernel.batch != batch) continue;
    return CudaStatus(kernel.launch(launch, stream), "mat_mul");
  }
  return absl::InternalError(absl::StrCat("mat_mul: no kernel of ", config.groups, " warpgroups"));
}

}  // namespace thresher
