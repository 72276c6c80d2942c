#include "kernels/cpu/attention_blocks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <variant>

#include "kernels/cpu/attention_call.h"
#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/attention_unit.h"
#include "kernels/device/shape_check.h"

namespace thresher {
namespace {

constexpr const char* kOp = "attention over blocks";
constexpr std::size_t kLine = 64;
constexpr std::int64_t kMaxListedBlocks = 65536;  // ids have 16 bits
static_assert(kSelectionBlock == kListedBlock);

// A step's longest rows are known only once a layer has its lists, so Run puts the items in order:
// counters for each length, then the order of the items. Offsets in bytes.
struct Workspace {
  std::size_t order = 0;
  std::size_t scratch = 0;
  std::size_t scratch_each = 0;
  std::size_t total = 0;
};

std::size_t RoundUpToLine(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

std::int32_t LongestRow(const AttentionBatch& batch) {
  std::int32_t longest = 0;
  for (int sequence = 0; sequence < batch.num_sequences(); ++sequence) {
    const std::int32_t length = batch.context_length[sequence] + batch.query_start[sequence + 1] -
                                batch.query_start[sequence];
    longest = std::max(longest, (length + kSelectionBlock - 1) / kSelectionBlock);
  }
  return longest;
}

Workspace LayOut(const AttentionBatch& batch, std::int64_t num_items, int num_threads) {
  Workspace layout;
  layout.order = RoundUpToLine(sizeof(std::int32_t) * (LongestRow(batch) + 1));
  layout.scratch = layout.order + RoundUpToLine(sizeof(std::int32_t) * num_items);
  layout.scratch_each = RoundUpToLine(sizeof(float) * PrefillScratchFloats(batch.head_dim));
  layout.total = layout.scratch + layout.scratch_each * num_threads + kLine;
  return layout;
}

// The block of the sequence that an item's queries lie in.
int OwnBlock(const AttentionPlan& plan, const AttentionWorkItem& item) {
  return (plan.batch.context_length[item.sequence] + item.first_row) / kSelectionBlock;
}

void PlanItems(AttentionPlan& plan) {
  const AttentionBatch& batch = plan.batch;
  const int group_size = batch.num_heads / batch.num_kv_heads;
  ResetPlan(plan);
  std::int32_t first_query_block = 0;
  for (int sequence = 0; sequence < batch.num_sequences(); ++sequence) {
    const int context = batch.context_length[sequence];
    const int num_queries = batch.query_start[sequence + 1] - batch.query_start[sequence];
    AttentionWorkItem item;
    item.sequence = sequence;
    while (item.first_row < num_queries) {
      const int position = context + item.first_row;
      const int left_of_block = kSelectionBlock - position % kSelectionBlock;
      item.num_rows = std::min({kPrefillRows, left_of_block, num_queries - item.first_row});
      item.num_keys = position + item.num_rows;
      item.query_block = first_query_block + position / kSelectionBlock - context / kSelectionBlock;
      for (item.head = 0; item.head < batch.num_heads; ++item.head) {
        item.kv_head = item.head / group_size;
        plan.items.push_back(item);
      }
      item.first_row += item.num_rows;
    }
    first_query_block += NumQueryBlocks(context, num_queries);
  }
}

// The lists of a call, or none for every block.
class Lists final {
 public:
  Lists(const AttentionPlan& plan, const SelectBlocks* blocks) : plan_(plan), blocks_(blocks) {}

  // kAllBlocks or the number of blocks listed.
  std::int32_t ListedOf(const AttentionWorkItem& item) const {
    return blocks_ == nullptr ? kAllBlocks : blocks_->list_length[IndexOf(item)];
  }
  std::int32_t LengthOf(const AttentionWorkItem& item) const {
    const std::int32_t listed = ListedOf(item);
    return listed == kAllBlocks ? OwnBlock(plan_, item) + 1 : listed;
  }
  const std::uint16_t* BlocksOf(const AttentionWorkItem& item) const {
    return blocks_->blocks + IndexOf(item) * blocks_->capacity;
  }

  // The items' lengths index counters and their blocks memory, so those are checked.
  absl::Status Check() const {
    if (blocks_ == nullptr) return absl::OkStatus();
    absl::Status status = CheckStarts();
    for (const AttentionWorkItem& item : plan_.items) {
      if (!status.ok()) return status;
      const std::int32_t listed = ListedOf(item);
      if (listed == kAllBlocks) continue;
      const int own = OwnBlock(plan_, item);
      status = CheckRange(kOp, "list_length", listed, 1, std::min(blocks_->capacity, own + 1));
      if (status.ok()) {
        status = CheckCount(kOp, "last block of a list", BlocksOf(item)[listed - 1], own);
      }
    }
    return status;
  }

 private:
  std::int64_t IndexOf(const AttentionWorkItem& item) const {
    return std::int64_t{item.query_block} * plan_.batch.num_heads + item.head;
  }

  absl::Status CheckStarts() const {
    const AttentionBatch& batch = plan_.batch;
    absl::Status status = CheckCount(kOp, "query_block_start.size",
                                     static_cast<std::int64_t>(blocks_->query_block_start.size()),
                                     batch.num_sequences() + 1);
    std::int32_t start = 0;
    for (int sequence = 0; status.ok(); ++sequence) {
      status = CheckCount(kOp, "query_block_start", blocks_->query_block_start[sequence], start);
      if (sequence == batch.num_sequences()) break;
      start += NumQueryBlocks(batch.context_length[sequence],
                              batch.query_start[sequence + 1] - batch.query_start[sequence]);
    }
    if (status.ok() && start > 0) {
      status = CheckRange(kOp, "capacity", blocks_->capacity, 1, kMaxListedBlocks);
    }
    if (status.ok() && start > 0 &&
        (blocks_->list_length == nullptr || blocks_->blocks == nullptr)) {
      status = absl::InvalidArgumentError(std::string(kOp) + ": the lists have no memory");
    }
    return status;
  }

  const AttentionPlan& plan_;
  const SelectBlocks* blocks_;
};

class AttentionBlocks final : public AttentionKernel {
 public:
  AttentionBlocks(DType kv_dtype, const AttentionAllLoops& loops, ThreadTeam& team)
      : key_{AttentionMechanism::kBlocks, AttentionPhase::kPrefill, kv_dtype, 0},
        loops_(loops),
        team_(team) {}

  AttentionKey key() const override { return key_; }

  std::size_t WorkspaceBytes(const AttentionBatch& largest) const override {
    // A block of r rows makes at most r / kPrefillRows + 1 items of a head, and n queries of a
    // sequence touch at most n / kSelectionBlock + 2 blocks, however they are dealt out.
    const std::int64_t rows = largest.query_start.back();
    const std::int64_t items = (rows / kPrefillRows + rows / kSelectionBlock + 2 +
                                std::int64_t{2} * largest.num_sequences()) *
                               largest.num_heads;
    return LayOut(largest, items, team_.num_threads()).total;
  }

  absl::Status Plan(const AttentionBatch& batch, DeviceBuffer& workspace, Stream&,
                    AttentionPlan& plan) const override {
    absl::Status status = CheckAttentionBatch(batch);
    if (!status.ok()) return status;
    plan.batch = batch;
    PlanItems(plan);
    return TakeAttentionWorkspace(workspace, LayOutOf(plan).total, plan);
  }

  absl::Status Run(const AttentionPlan& plan, const AttentionLayer& layer,
                   const KvSelection& selection, Stream&) const override {
    absl::Status status = CheckAttentionLayer(plan, layer, key_.kv_dtype);
    if (!status.ok()) return status;
    const auto* blocks = std::get_if<SelectBlocks>(&selection);
    if (blocks == nullptr && !std::holds_alternative<SelectAll>(selection)) {
      return absl::InvalidArgumentError(std::string(kOp) + ": the selection is not of blocks");
    }
    const Lists lists(plan, blocks);
    status = lists.Check();
    if (!status.ok()) return status;
    const Workspace layout = LayOutOf(plan);
    const std::int32_t* order = PutInOrder(plan, lists, layout);
    const auto run = [&](std::int64_t index, int thread) {
      RunItem(plan, layer, lists, layout, plan.items[order[index]], thread);
    };
    const std::int64_t num_items = static_cast<std::int64_t>(plan.items.size());
    if (IsSmall(plan, lists)) {
      for (std::int64_t index = 0; index < num_items; ++index) run(index, 0);
    } else {
      team_.ParallelFor(num_items, run);
    }
    return absl::OkStatus();
  }

 private:
  Workspace LayOutOf(const AttentionPlan& plan) const {
    return LayOut(plan.batch, static_cast<std::int64_t>(plan.items.size()), team_.num_threads());
  }

  // The indices of the items, those with the longest lists first, by a counting sort.
  static const std::int32_t* PutInOrder(const AttentionPlan& plan, const Lists& lists,
                                        const Workspace& layout) {
    auto* memory = static_cast<std::byte*>(plan.workspace);
    auto* next = reinterpret_cast<std::int32_t*>(memory);  // [longest + 1]
    auto* order = reinterpret_cast<std::int32_t*>(memory + layout.order);
    const std::int32_t longest = LongestRow(plan.batch);
    std::memset(next, 0, sizeof(std::int32_t) * (longest + 1));
    for (const AttentionWorkItem& item : plan.items) ++next[lists.LengthOf(item)];
    for (std::int32_t length = longest, first = 0; length >= 0; --length) {
      first += std::exchange(next[length], first);
    }
    for (std::size_t i = 0; i < plan.items.size(); ++i) {
      order[next[lists.LengthOf(plan.items[i])]++] = static_cast<std::int32_t>(i);
    }
    return order;
  }

  // Whether all items together take less than a fork; a key's cost as in mechanism `all`.
  static bool IsSmall(const AttentionPlan& plan, const Lists& lists) {
    std::int64_t work = 0;
    for (const AttentionWorkItem& item : plan.items) {
      work += std::int64_t{item.num_rows} * lists.LengthOf(item) * kSelectionBlock *
              plan.batch.head_dim / 4;
      if (work >= ThreadTeam::kSerialWork) return false;
    }
    return true;
  }

  void RunItem(const AttentionPlan& plan, const AttentionLayer& layer, const Lists& lists,
               const Workspace& layout, const AttentionWorkItem& item, int thread) const {
    AttentionUnit unit = AttentionUnitOf(plan, layer, item);
    // One head: its rows are the queries.
    const std::int64_t head = item.head % unit.group_size;
    unit.group_size = 1;
    unit.q += head * unit.head_dim;
    unit.out = static_cast<std::byte*>(unit.out) + head * unit.head_dim * SizeOf(unit.out_dtype);
    const std::int32_t listed = lists.ListedOf(item);
    if (listed != kAllBlocks) {
      unit.listed = lists.BlocksOf(item);
      unit.num_listed = listed;
    }
    auto* workspace = static_cast<std::byte*>(plan.workspace);
    loops_.prefill(
        unit, reinterpret_cast<float*>(workspace + layout.scratch + layout.scratch_each * thread));
  }

  const AttentionKey key_;
  const AttentionAllLoops& loops_;
  ThreadTeam& team_;
};

}  // namespace

std::vector<std::unique_ptr<AttentionKernel>> MakeAttentionBlocksKernels(CpuIsa isa,
                                                                         bool full_precision,
                                                                         ThreadTeam& team) {
  const AttentionAllLoops& loops = AttentionLoopsFor(isa, full_precision);
  std::vector<std::unique_ptr<AttentionKernel>> kernels;
  for (const DType kv_dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    kernels.push_back(std::make_unique<AttentionBlocks>(kv_dtype, loops, team));
  }
  return kernels;
}

}  // namespace thresher
