// For tests of block selection with every instruction set: lists, and attention over them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/block_selection_run.h"
#include "tests/support/cpu_backends.h"
#include "tests/support/reference/paged_attention_case.h"

namespace thresher {

class BlockSelectionFixture : public testing::TestWithParam<CpuVariant> {
 protected:
  void SetUp() override {
    if (!MachineRuns(GetParam())) GTEST_SKIP() << "this machine lacks the instruction set";
    backend_ = MakeCpuBackend(GetParam(), 2);
  }

  std::unique_ptr<SelectedBlocks> Select(PagedAttentionCase& attention,
                                         const BlockSelectionRun& run) {
    auto selected = RunBlockSelector(attention, *backend_, run);
    EXPECT_TRUE(selected.ok()) << selected.status();
    return *std::move(selected);
  }

  std::vector<float> Attend(PagedAttentionCase& attention, AttentionMechanism mechanism,
                            const KvSelection& selection) {
    return attention
        .Run(*backend_->kernels().Find({mechanism, AttentionPhase::kPrefill,
                                        attention.shape().kv_dtype, attention.shape().head_dim}),
             *backend_, selection)
        .value();
  }

  std::unique_ptr<Backend> backend_;
};

// `budget` for every row, scores of kAntidiagonal.
inline BlockSelectionRun RunWith(ValueTerm value_term, int budget, int sinks = 1, int locals = 1) {
  BlockSelectionRun run;
  run.budget = [budget](int, int) { return budget; };
  run.rules.value_term = value_term;
  run.rules.sink_blocks = sinks;
  run.rules.local_blocks = locals;
  return run;
}

// The lists of every row of the batch.
inline std::vector<std::set<int>> ListsOf(const PagedAttentionCase& attention,
                                          const SelectedBlocks& selected) {
  std::vector<std::set<int>> lists;
  ForEachQueryBlock(attention, [&](int, int own, std::int64_t row) {
    for (int head = 0; head < attention.shape().num_heads; ++head) {
      lists.push_back(selected.List(row, head, own));
    }
  });
  return lists;
}

inline std::vector<float> Narrowed(const std::vector<double>& row) {
  return {row.begin(), row.end()};
}

// Of the first sequence.
inline int LengthOf(const PagedAttentionCase& attention) {
  return attention.sequences()[0].context_length + attention.sequences()[0].query_length;
}

// Values at positions [first, last) of the first sequence.
inline void ScaleValues(PagedAttentionCase& attention, int first, int last, double factor) {
  for (int head = 0; head < attention.shape().num_kv_heads; ++head) {
    for (int position = first; position < last; ++position) {
      std::vector<double> v = attention.Value(0, head, position);
      for (double& x : v) x *= factor;
      attention.SetValue(0, head, position, Narrowed(v));
    }
  }
}

}  // namespace thresher
