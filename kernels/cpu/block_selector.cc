#include "kernels/cpu/block_selector.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>

#include "kernels/cpu/attention_call.h"
#include "kernels/cpu/block_choice.h"
#include "kernels/cpu/block_row_scores.h"
#include "kernels/cpu/block_score_loops.h"
#include "kernels/cpu/block_selection_workspace.h"
#include "kernels/cpu/block_value_terms.h"
#include "kernels/device/shape_check.h"

namespace thresher {
namespace {

constexpr const char* kOp = "block selection";
static_assert(kSelectionBlock == kListedBlock);

bool UsesValues(const BlockSelectionRules& rules) {
  return rules.score == BlockScore::kAntidiagonal && rules.value_term != ValueTerm::kOff;
}

absl::Status CheckRules(const BlockSelectionRules& rules) {
  absl::Status status = CheckRange(kOp, "stride", rules.stride, 8, 16);
  if (status.ok()) status = CheckCount(kOp, "stride % 8", rules.stride % 8, 0);
  if (status.ok()) status = CheckRange(kOp, "sink_blocks", rules.sink_blocks, 0, 1 << 16);
  if (status.ok()) status = CheckRange(kOp, "local_blocks", rules.local_blocks, 1, 1 << 16);
  if (!status.ok()) return status;
  if (!(rules.covered_mass >= 0 && rules.covered_mass <= 1)) {
    return absl::InvalidArgumentError(std::string(kOp) + ": covered_mass is " +
                                      std::to_string(rules.covered_mass) + ", expected 0 to 1");
  }
  if (rules.covered_mass > 0 && !UsesGroupSums(rules.score)) {
    return absl::InvalidArgumentError(std::string(kOp) +
                                      ": covered_mass needs a score that is a share of mass");
  }
  return absl::OkStatus();
}

absl::Status CheckStatistics(const BlockSelectionRules& rules, const ValueStatistics& statistics,
                             int num_kv_heads) {
  if (!UsesValues(rules)) return absl::OkStatus();
  const bool centred = rules.value_term == ValueTerm::kCentred;
  if (!centred && rules.value_term != ValueTerm::kCalibrated) return absl::OkStatus();
  const float* mean = centred ? statistics.centred_mean : statistics.mean;
  const float* std = centred ? statistics.centred_std : statistics.std;
  if (mean == nullptr || std == nullptr || (centred && statistics.mean_value == nullptr)) {
    return absl::InvalidArgumentError(std::string(kOp) +
                                      ": the value term needs statistics that are not given");
  }
  for (int head = 0; head < num_kv_heads; ++head) {
    if (std::isfinite(mean[head]) && std::isfinite(std[head]) && std[head] > 0) continue;
    return absl::InvalidArgumentError(std::string(kOp) + ": the value statistics of KV head " +
                                      std::to_string(head) + " are not finite and positive");
  }
  return absl::OkStatus();
}

absl::Status CheckBudgets(const AttentionBatch& batch, const BlockBudgets& budgets) {
  const std::int64_t n = batch.num_sequences();
  absl::Status status =
      CheckCount(kOp, "query_block_start.size",
                 static_cast<std::int64_t>(budgets.query_block_start.size()), n + 1);
  if (status.ok()) {
    status = CheckCount(kOp, "beta.size", static_cast<std::int64_t>(budgets.beta.size()), n);
  }
  std::int32_t start = 0;
  for (int sequence = 0; sequence <= n && status.ok(); ++sequence) {
    status = CheckCount(kOp, "query_block_start", budgets.query_block_start[sequence], start);
    if (sequence == n) break;
    start += NumQueryBlocks(batch.context_length[sequence],
                            batch.query_start[sequence + 1] - batch.query_start[sequence]);
  }
  if (status.ok()) {
    status =
        CheckCount(kOp, "budget.size", static_cast<std::int64_t>(budgets.budget.size()), start);
  }
  for (const std::int32_t budget : budgets.budget) {
    if (!status.ok()) return status;
    status = CheckRange(kOp, "budget", budget, kAllBlocks, 1 << 24);
  }
  return status;
}

// A step's selection as its threads see it.
struct Step {
  const AttentionPlan& plan;
  const AttentionLayer& layer;
  int layer_index;
  const BlockSelectionRules& rules;
  const BlockBudgets& budgets;
  const ValueStatistics& statistics;
  const BlockSelectionShape& shape;
  const BlockSelectionLayout& layout;
  std::byte* memory;

  template <typename T>
  T* At(std::size_t offset) const {
    return reinterpret_cast<T*>(memory + offset);
  }
  std::byte* ScratchOf(int thread) const {
    return memory + layout.scratch + layout.scratch_each * thread;
  }
  std::int64_t KeySumsLength() const { return std::int64_t{rules.stride} * shape.head_dim; }
  std::uint16_t* KeySumsOf(int kv_head) const {
    return At<std::uint16_t>(layout.key_sums) + kv_head * shape.longest * KeySumsLength();
  }
  float* ValueTermsOf(int kv_head) const {
    return At<float>(layout.value_terms) + std::int64_t{kv_head} * shape.longest;
  }
  float* ValueGroupsOf(int kv_head) const {
    return At<float>(layout.value_groups) +
           std::int64_t{kv_head} * shape.longest * (kSelectionBlock / rules.stride);
  }
  // Whether query block `row` of the batch, block `own` of its sequence, gets a list.
  bool IsListed(std::int64_t row, int own) const {
    const std::int32_t budget = budgets.budget[row];
    const int least = rules.sink_blocks + rules.local_blocks;
    // With covered_mass the budget says only whether a row is dense.
    return budget != kAllBlocks &&
           own + 1 > (rules.covered_mass > 0 ? least : std::max(budget, least));
  }
};

// One sequence of the step.
struct SequenceBlocks {
  int sequence = 0;
  std::int64_t first_row = 0;  // query block of the batch
  int num_rows = 0;
  int first_own = 0;     // block of the sequence that the first row is
  int num_keys = 0;      // tokens of the sequence
  int num_complete = 0;  // blocks it has filled
};

SequenceBlocks BlocksOf(const Step& step, int sequence) {
  const AttentionBatch& batch = step.plan.batch;
  SequenceBlocks blocks;
  blocks.sequence = sequence;
  blocks.first_row = step.budgets.query_block_start[sequence];
  blocks.num_rows =
      static_cast<int>(step.budgets.query_block_start[sequence + 1] - blocks.first_row);
  blocks.first_own = batch.context_length[sequence] / kSelectionBlock;
  blocks.num_keys = batch.context_length[sequence] + batch.query_start[sequence + 1] -
                    batch.query_start[sequence];
  blocks.num_complete = blocks.num_keys / kSelectionBlock;
  return blocks;
}

AttentionUnit UnitOf(const Step& step, int sequence, int kv_head) {
  AttentionWorkItem item;
  item.sequence = sequence;
  item.kv_head = kv_head;
  return AttentionUnitOf(step.plan, step.layer, item);
}

// Key sums and value terms of one block; with kZScore only the groups, of an incomplete block too.
void PrepareKeyBlock(const Step& step, const BlockScoreLoops& loops, const SequenceBlocks& blocks,
                     int kv_head, int block, std::byte* scratch) {
  const BlockSelectionRules& rules = step.rules;
  const AttentionUnit unit = UnitOf(step, blocks.sequence, kv_head);
  const int first_key = block * kSelectionBlock;
  const bool is_complete = block < blocks.num_complete;
  // The next block of this head; a thread's last one fetches in vain.
  const int num_ahead = block + 1 < blocks.num_complete ? kSelectionBlock : 0;
  if (is_complete) {
    loops.key_sums(unit, first_key, rules.stride, UsesValues(rules), num_ahead,
                   step.KeySumsOf(kv_head) + block * step.KeySumsLength());
  }
  if (!UsesValues(rules)) return;
  const int num_groups = std::min(kSelectionBlock, blocks.num_keys - first_key) / rules.stride;
  const bool centred = rules.value_term == ValueTerm::kCentred;
  const float* centre =
      centred ? step.statistics.mean_value + std::int64_t{kv_head} * step.shape.head_dim : nullptr;
  auto* squares = reinterpret_cast<float*>(scratch + step.layout.squares);
  loops.value_squares(unit, first_key, num_groups * rules.stride, centre, num_ahead, squares);
  float* groups = step.ValueGroupsOf(kv_head) + block * (kSelectionBlock / rules.stride);
  float* term = step.ValueTermsOf(kv_head) + block;
  if (rules.value_term == ValueTerm::kRaw) {
    *term = RawValueTerm(squares, num_groups * rules.stride);
    return;
  }
  GroupLogNorms(squares, num_groups, rules.stride, groups);
  if (rules.value_term == ValueTerm::kZScore) return;
  const float* mean = centred ? step.statistics.centred_mean : step.statistics.mean;
  const float* std = centred ? step.statistics.centred_std : step.statistics.std;
  *term = NormalisedValueTerm(groups, num_groups, mean[kv_head], std[kv_head]);
}

// Over every whole group of `stride` tokens of the sequence.
void NormaliseByVisibleGroups(const Step& step, const SequenceBlocks& blocks, int kv_head) {
  const int groups_of_block = kSelectionBlock / step.rules.stride;
  const float* groups = step.ValueGroupsOf(kv_head);
  const GroupStatistics statistics = StatisticsOf(groups, blocks.num_keys / step.rules.stride);
  for (int block = 0; block < blocks.num_complete; ++block) {
    step.ValueTermsOf(kv_head)[block] =
        NormalisedValueTerm(groups + std::int64_t{block} * groups_of_block, groups_of_block,
                            statistics.mean, statistics.std);
  }
}

// Every head's scores := their mean.
void ShareScores(int group_size, int num_blocks, float* scores, std::int64_t score_stride) {
  for (int block = 0; block < num_blocks; ++block) {
    float sum = 0;
    for (int head = 0; head < group_size; ++head) sum += scores[head * score_stride + block];
    const float mean = sum / static_cast<float>(group_size);
    for (int head = 0; head < group_size; ++head) scores[head * score_stride + block] = mean;
  }
}

// The lists of one query block for the heads of one KV head.
void SelectRow(const Step& step, const BlockScoreLoops& loops, const SequenceBlocks& blocks,
               int row_of_sequence, int kv_head, std::byte* scratch) {
  const AttentionBatch& batch = step.plan.batch;
  const BlockSelectionRules& rules = step.rules;
  const int own = blocks.first_own + row_of_sequence;
  const std::int64_t row_index = blocks.first_row + row_of_sequence;
  if (!step.IsListed(row_index, own)) return;
  BlockRowInputs inputs;
  inputs.unit = UnitOf(step, blocks.sequence, kv_head);
  inputs.key_sums = step.KeySumsOf(kv_head);
  inputs.beta = step.budgets.beta[blocks.sequence];
  inputs.value_terms = UsesValues(rules) && inputs.beta != 0 ? step.ValueTermsOf(kv_head) : nullptr;
  inputs.num_complete = blocks.num_complete;
  inputs.num_keys = blocks.num_keys;
  BlockRow row;
  row.own = own;
  row.group_size = inputs.unit.group_size;
  row.first_head = kv_head * row.group_size;
  const int context = batch.context_length[blocks.sequence];
  const int first = std::max(context, own * kSelectionBlock);
  row.queries = {inputs.unit.q + (first - context) * inputs.unit.query_stride,
                 inputs.unit.query_stride, first % kSelectionBlock,
                 std::min(blocks.num_keys, (own + 1) * kSelectionBlock) - first};

  const std::int64_t first_list = row_index * batch.num_heads + row.first_head;
  const std::int64_t score_stride = step.shape.longest;
  float* scores = step.At<float>(step.layout.scores) + first_list * score_stride;
  const bool is_scored = rules.score != BlockScore::kNone;
  if (is_scored) {
    ScoreBlockRow(loops, rules, step.layout, step.layer_index, inputs, row, scratch, scores,
                  score_stride);
  }
  const bool shares = rules.shares_group || !is_scored;
  if (shares && is_scored) ShareScores(row.group_size, own + 1, scores, score_stride);
  auto* lengths = step.At<std::int32_t>(step.layout.list_length) + first_list;
  auto* lists = step.At<std::uint16_t>(step.layout.blocks) + first_list * step.shape.capacity;
  for (int head = 0; head < row.group_size; ++head) {
    std::uint16_t* list = lists + std::int64_t{head} * step.shape.capacity;
    if (shares && head > 0) {
      std::copy(lists, lists + lengths[0], list);
      lengths[head] = lengths[0];
      continue;
    }
    lengths[head] = ChooseBlocks(
        is_scored ? scores + head * score_stride : nullptr, own + 1, step.budgets.budget[row_index],
        rules, reinterpret_cast<std::uint64_t*>(scratch + step.layout.order),
        reinterpret_cast<std::uint8_t*>(scratch + step.layout.is_chosen), list);
  }
}

class CpuBlockSelector final : public BlockSelector {
 public:
  CpuBlockSelector(const BlockScoreLoops& loops, ThreadTeam& team) : loops_(loops), team_(team) {}

  std::size_t WorkspaceBytes(const AttentionBatch& largest, const BlockSelectionRules& rules,
                             int max_budget) const override {
    // n queries of a sequence touch at most n / kSelectionBlock + 2 blocks.
    const std::int64_t rows = largest.query_start.back() / kSelectionBlock + 1 +
                              std::int64_t{2} * largest.num_sequences();
    return LayOutBlockSelection(
               BlockSelectionShapeOf(largest, rules, rows, max_budget, team_.num_threads()), rules)
        .total;
  }

  absl::Status Run(const AttentionPlan& plan, const AttentionLayer& layer, int layer_index,
                   const BlockSelectionRules& rules, const BlockBudgets& budgets,
                   const ValueStatistics& statistics, DeviceBuffer& workspace, Stream&,
                   BlockSelection& selection) const override {
    absl::Status status = CheckRules(rules);
    if (status.ok()) status = CheckAttentionLayer(plan, layer, layer.cache.k.dtype);
    if (status.ok()) status = CheckStatistics(rules, statistics, plan.batch.num_kv_heads);
    if (status.ok()) status = CheckBudgets(plan.batch, budgets);
    if (!status.ok()) return status;
    const std::int32_t max_budget =
        budgets.budget.empty() ? 0
                               : *std::max_element(budgets.budget.begin(), budgets.budget.end());
    const BlockSelectionShape shape =
        BlockSelectionShapeOf(plan.batch, rules, static_cast<std::int64_t>(budgets.budget.size()),
                              max_budget, team_.num_threads());
    status = CheckRange(kOp, "blocks of a sequence", shape.longest, 0, kMaxBlocks);
    if (!status.ok()) return status;
    const BlockSelectionLayout layout = LayOutBlockSelection(shape, rules);
    if (layout.total > workspace.num_bytes()) {
      return absl::InvalidArgumentError(std::string(kOp) + ": the workspace has " +
                                        std::to_string(workspace.num_bytes()) +
                                        " bytes, this step needs " + std::to_string(layout.total));
    }
    const Step step = {plan,  layer,  layer_index,          rules, budgets, statistics,
                       shape, layout, workspace.bytes_at(0)};
    for (int sequence = 0; sequence < plan.batch.num_sequences(); ++sequence) {
      SelectSequence(step, BlocksOf(step, sequence));
    }
    selection.lists = {budgets.query_block_start, step.At<std::int32_t>(layout.list_length),
                       step.At<std::uint16_t>(layout.blocks), shape.capacity};
    selection.scores = rules.score == BlockScore::kNone ? nullptr : step.At<float>(layout.scores);
    selection.score_stride = shape.longest;
    return absl::OkStatus();
  }

 private:
  static constexpr std::int64_t kMaxBlocks = 65536;  // ids have 16 bits

  void SelectSequence(const Step& step, const SequenceBlocks& blocks) const {
    const BlockSelectionShape& shape = step.shape;
    std::int32_t* lengths =
        step.At<std::int32_t>(step.layout.list_length) + blocks.first_row * shape.num_heads;
    std::fill(lengths, lengths + std::int64_t{blocks.num_rows} * shape.num_heads, kAllBlocks);
    bool is_listed = false;
    for (int row = 0; row < blocks.num_rows && !is_listed; ++row) {
      is_listed = step.IsListed(blocks.first_row + row, blocks.first_own + row);
    }
    if (!is_listed) return;
    if (step.rules.score == BlockScore::kAntidiagonal) PrepareKeys(step, blocks);
    // The last rows are the longest.
    team_.ParallelFor(
        std::int64_t{blocks.num_rows} * shape.num_kv_heads, [&](std::int64_t task, int thread) {
          const auto row = static_cast<int>(task / shape.num_kv_heads);
          SelectRow(step, loops_, blocks, blocks.num_rows - 1 - row,
                    static_cast<int>(task % shape.num_kv_heads), step.ScratchOf(thread));
        });
  }

  void PrepareKeys(const Step& step, const SequenceBlocks& blocks) const {
    const bool z_score = UsesValues(step.rules) && step.rules.value_term == ValueTerm::kZScore;
    const int num_blocks =
        z_score ? (blocks.num_keys + kSelectionBlock - 1) / kSelectionBlock : blocks.num_complete;
    const std::int64_t cost = std::int64_t{2} * kSelectionBlock * step.shape.head_dim;
    team_.ParallelRanges(std::int64_t{step.shape.num_kv_heads} * num_blocks, cost,
                         [&](std::int64_t begin, std::int64_t end, int thread) {
                           for (std::int64_t i = begin; i < end; ++i) {
                             PrepareKeyBlock(step, loops_, blocks, static_cast<int>(i / num_blocks),
                                             static_cast<int>(i % num_blocks),
                                             step.ScratchOf(thread));
                           }
                         });
    if (!z_score) return;
    team_.ParallelRanges(step.shape.num_kv_heads, blocks.num_keys,
                         [&](std::int64_t begin, std::int64_t end, int) {
                           for (std::int64_t head = begin; head < end; ++head) {
                             NormaliseByVisibleGroups(step, blocks, static_cast<int>(head));
                           }
                         });
  }

  const BlockScoreLoops& loops_;
  ThreadTeam& team_;
};

}  // namespace

std::unique_ptr<BlockSelector> MakeCpuBlockSelector(CpuIsa isa, ThreadTeam& team) {
  const BlockScoreLoops& loops =
      isa == CpuIsa::kAvx2 ? BlockScoreLoopsAvx2() : BlockScoreLoopsAvx512();
  return std::make_unique<CpuBlockSelector>(loops, team);
}

}  // namespace thresher
