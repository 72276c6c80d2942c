#include "tests/support/block_selection_run.h"

#include <algorithm>
#include <cmath>

#include "tests/support/reference/block_selection_reference.h"

namespace thresher {

std::set<int> SelectedBlocks::List(std::int64_t query_block, int head, int own) const {
  std::set<int> list;
  const std::int64_t index = IndexOf(query_block, head);
  if (ReadsAll(query_block, head)) {
    for (int block = 0; block <= own; ++block) list.insert(block);
    return list;
  }
  const std::uint16_t* blocks = selection.lists.blocks + index * selection.lists.capacity;
  return {blocks, blocks + selection.lists.list_length[index]};
}

bool SelectedBlocks::ReadsAll(std::int64_t query_block, int head) const {
  return selection.lists.list_length[IndexOf(query_block, head)] == kAllBlocks;
}

std::span<const float> SelectedBlocks::Scores(std::int64_t query_block, int head, int own) const {
  return {selection.scores + IndexOf(query_block, head) * selection.score_stride,
          static_cast<std::size_t>(own + 1)};
}

void ForEachQueryBlock(const PagedAttentionCase& attention,
                       const std::function<void(int, int, std::int64_t)>& visit) {
  std::int64_t query_block = 0;
  for (std::size_t s = 0; s < attention.sequences().size(); ++s) {
    const PagedSequence& sequence = attention.sequences()[s];
    const int first = sequence.context_length / kSelectionBlock;
    const int count = NumQueryBlocks(sequence.context_length, sequence.query_length);
    for (int own = first; own < first + count; ++own) {
      visit(static_cast<int>(s), own, query_block++);
    }
  }
}

absl::StatusOr<std::unique_ptr<SelectedBlocks>> RunBlockSelector(PagedAttentionCase& attention,
                                                                 Backend& backend,
                                                                 const BlockSelectionRun& run) {
  auto selected = std::make_unique<SelectedBlocks>();
  selected->num_heads = attention.shape().num_heads;
  selected->query_block_start = {0};
  std::vector<std::int32_t> budget;
  ForEachQueryBlock(attention, [&](int sequence, int own, std::int64_t) {
    budget.push_back(run.budget(sequence, own));
  });
  for (const PagedSequence& sequence : attention.sequences()) {
    selected->query_block_start.push_back(
        selected->query_block_start.back() +
        NumQueryBlocks(sequence.context_length, sequence.query_length));
  }
  const std::vector<float> beta(attention.sequences().size(), run.beta);

  absl::StatusOr<std::unique_ptr<Stream>> stream = backend.device().CreateStream();
  if (!stream.ok()) return stream.status();
  const AttentionKernel* kernel =
      backend.kernels().Find({AttentionMechanism::kBlocks, AttentionPhase::kPrefill,
                              attention.shape().kv_dtype, attention.shape().head_dim});
  if (kernel == nullptr) return absl::NotFoundError("no kernel of mechanism `blocks`");
  absl::StatusOr<DeviceBuffer> plan_workspace =
      backend.device().Allocate(kernel->WorkspaceBytes(attention.Batch()));
  if (!plan_workspace.ok()) return plan_workspace.status();
  AttentionPlan plan;
  absl::Status status = kernel->Plan(attention.Batch(), *plan_workspace, **stream, plan);
  if (!status.ok()) return status;

  const BlockSelector& selector = backend.block_selector();
  const int max_budget = *std::max_element(budget.begin(), budget.end());
  absl::StatusOr<DeviceBuffer> workspace =
      backend.device().Allocate(selector.WorkspaceBytes(attention.Batch(), run.rules, max_budget));
  if (!workspace.ok()) return workspace.status();
  selected->workspace = *std::move(workspace);
  std::vector<std::uint32_t> out(attention.num_tokens() * attention.shape().num_heads *
                                 attention.shape().head_dim);
  const AttentionLayer layer = attention.Layer(out.data());
  const BlockBudgets budgets = {selected->query_block_start, budget, beta};
  for (const int layer_index : {run.layer_index + 1, run.layer_index}) {
    status = selector.Run(plan, layer, layer_index, run.rules, budgets, run.statistics,
                          selected->workspace, **stream, selected->selection);
    if (!status.ok()) return status;
  }
  return selected;
}

OwnedValueStatistics CalibrateValues(const PagedAttentionCase& attention, int stride) {
  OwnedValueStatistics statistics;
  const int length =
      attention.sequences()[0].context_length + attention.sequences()[0].query_length;
  const auto moments = [](const std::vector<double>& groups, std::vector<float>& mean,
                          std::vector<float>& std) {
    double sum = 0, squares = 0;
    const auto n = static_cast<double>(groups.size());
    for (const double x : groups) sum += x;
    for (const double x : groups) squares += (x - sum / n) * (x - sum / n);
    mean.push_back(static_cast<float>(sum / n));
    std.push_back(static_cast<float>(std::sqrt(squares / (n - 1))));
  };
  for (int head = 0; head < attention.shape().num_kv_heads; ++head) {
    moments(ReferenceValueGroups(attention, 0, head, stride, nullptr), statistics.mean,
            statistics.std);
    std::vector<double> sum(attention.shape().head_dim);
    for (int position = 0; position < length; ++position) {
      const std::vector<double> v = attention.Value(0, head, position);
      for (std::size_t d = 0; d < v.size(); ++d) sum[d] += v[d] / length;
    }
    statistics.mean_value.insert(statistics.mean_value.end(), sum.begin(), sum.end());
    const std::vector<float> centre(sum.begin(), sum.end());
    moments(ReferenceValueGroups(attention, 0, head, stride, centre.data()),
            statistics.centred_mean, statistics.centred_std);
  }
  return statistics;
}

}  // namespace thresher
