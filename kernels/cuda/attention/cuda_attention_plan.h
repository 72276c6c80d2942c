// What the attention kernels of a GPU plan: items of work, and where they and their partial results
// lie in the workspace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cuda/attention/all/launch.h"
#include "kernels/cuda/upload_ring.h"
#include "kernels/ops/attention_kernel.h"

namespace thresher {

// How a kernel cuts its batch.
enum class AttentionCut : std::uint8_t {
  kRowTiles,   // items of kGpuPrefillRows rows of a KV head, the longest first
  kKeyRanges,  // items of a query and ranges of its keys, for every KV head; ranges are merged
  kQueries,    // items of a query, for every head
};

// Fills plan.items, merge_start, num_blocks and num_rows from plan.batch, which has been checked,
// for a GPU that holds so many warps of the kernel at once (kKeyRanges). Pure: needs no GPU.
void PlanItems(AttentionCut cut, int warps, AttentionPlan& plan);

// Offsets into the workspace, in bytes. What is uploaded comes first.
struct CudaAttentionLayout {
  std::size_t items = 0, sequences = 0, merge_start = 0, block_tables = 0, uploaded = 0;
  std::size_t counters = 0, partials = 0, total = 0;
};
// Of a plan with so many items and so on, each rounded up to a step (see PlanStep).
struct CudaPlanSize {
  std::int64_t items = 0, sequences = 0, merges = 0, blocks = 0, partials = 0;
};
CudaAttentionLayout LayOut(const CudaPlanSize& size, const AttentionBatch& batch);
CudaPlanSize SizeOf(const AttentionPlan& plan);
// The most that a batch no larger than `largest` makes.
CudaPlanSize LargestSize(AttentionCut cut, const AttentionBatch& largest);
// AttentionPlan::launch_key: equal for plans of one size, never 0.
std::uint64_t LaunchKeyOf(const CudaPlanSize& size);

// Sends plans to the device. One for all kernels of a backend.
class PlanUploader final {
 public:
  explicit PlanUploader(UploadRing& ring) : ring_(ring) {}
  // Uploads the plan's items and tables into the workspace and zeroes its counters. Items up to the
  // rounded number are empty: they have no keys. InvalidArgument if the workspace is too small.
  absl::Status Upload(AttentionCut cut, const CudaAttentionLayout& layout, DeviceBuffer& workspace,
                      AttentionPlan& plan, cudaStream_t stream);

 private:
  UploadRing& ring_;
  std::vector<std::byte> packed_;
};

}  // namespace thresher
