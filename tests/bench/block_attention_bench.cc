// Speed of prefill attention over lists of blocks, and of making the lists, against dense attention
// of the same prompt (one sequence, one layer, synthetic). Each run does, in turn: mechanism
// `all`, mechanism `blocks` with every block, `blocks` with the selector's lists, and the selector;
// so a busy machine slows all alike. One JSON line each, with the best and the median of the
// runs, and the best as a share of dense attention's. The lists hold `--density` of each row's
// blocks. The sparse output is checked against the double reference, the full one against `all`; a
// wrong result ends the run with status 1.
//
//   block_attention_bench [--tokens=16384] [--chunk=16384] [--density=0.25] [--stride=16] and
//                         attention_bench's arguments
#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "kernels/backend.h"
#include "nlohmann/json.hpp"
#include "tests/bench/attention_bench_parts.h"
#include "tests/support/reference/paged_attention_case.h"

namespace thresher {
namespace {

struct Prompt {
  int tokens = 16384;
  int chunk = 0;  // the last queries that are run; 0: all
  double density = 0.25;
  int stride = 16;
};

class Bench final {
 public:
  Bench(const Arguments& arguments, const Prompt& prompt)
      : arguments_(arguments),
        prompt_(prompt),
        backend_(Take(CreateBackend(DeviceKind::kCpu, 0, arguments.options))),
        stream_(Take(backend_->device().CreateStream())),
        attention_(ShapeOf(), {{prompt.tokens - prompt.chunk, prompt.chunk, 1}}),
        all_(KernelOf(AttentionMechanism::kAll)),
        blocks_(KernelOf(AttentionMechanism::kBlocks)),
        selector_(backend_->block_selector()) {
    backend_->BindThread();
    all_workspace_ = Plan(all_, all_plan_);
    blocks_workspace_ = Plan(blocks_, blocks_plan_);
    rules_.value_term = ValueTerm::kRaw;
    rules_.stride = prompt.stride;
    rules_.sink_blocks = rules_.local_blocks = 1;
    rules_.forced_in_budget = true;
    const int first = (prompt.tokens - prompt.chunk) / kSelectionBlock;
    const int count = NumQueryBlocks(prompt.tokens - prompt.chunk, prompt.chunk);
    for (int own = first; own < first + count; ++own) {
      budget_.push_back(std::max(2, static_cast<int>(std::lround(prompt.density * (own + 1)))));
    }
    query_block_start_ = {0, count};
    selector_workspace_ = Take(backend_->device().Allocate(selector_.WorkspaceBytes(
        attention_.Batch(), rules_, *std::max_element(budget_.begin(), budget_.end()))));
    dense_out_.resize(attention_.num_tokens() * RowElements());
    full_out_.resize(dense_out_.size());
    sparse_out_.resize(dense_out_.size());
  }

  void Run() {
    const std::vector<std::pair<std::string, std::function<void()>>> parts = {
        {"dense", [&] { Attend(all_, all_plan_, SelectAll{}, dense_out_); }},
        {"full list", [&] { Attend(blocks_, blocks_plan_, SelectAll{}, full_out_); }},
        {"selection", [&] { Select(); }},
        {"sparse", [&] { Attend(blocks_, blocks_plan_, selection_.lists, sparse_out_); }}};
    std::vector<std::vector<double>> seconds(parts.size());
    for (int round = 0; round <= arguments_.runs; ++round) {
      for (std::size_t part = 0; part < parts.size(); ++part) {
        const double start = arguments_.now();
        parts[part].second();
        const double taken = arguments_.now() - start;
        if (round > 0) seconds[part].push_back(taken);  // the first one warms up
      }
    }
    if (full_out_ != dense_out_) Fail("a list of every block differs from mechanism `all`");
    const double error = WorstOfBound();
    for (auto& times : seconds) std::sort(times.begin(), times.end());
    for (std::size_t part = 0; part < parts.size(); ++part) {
      Print(parts[part].first, seconds[part], seconds[0].front(), error);
    }
  }

 private:
  PagedAttentionShape ShapeOf() const {
    PagedAttentionShape shape = arguments_.shape;
    shape.out_dtype = DType::kF32;
    return shape;
  }
  std::int64_t RowElements() const {
    return std::int64_t{arguments_.shape.num_heads} * arguments_.shape.head_dim;
  }
  const AttentionKernel& KernelOf(AttentionMechanism mechanism) const {
    const AttentionKernel* kernel =
        backend_->kernels().Find({mechanism, AttentionPhase::kPrefill, arguments_.shape.kv_dtype,
                                  arguments_.shape.head_dim});
    if (kernel == nullptr) Fail("no kernel");
    return *kernel;
  }
  DeviceBuffer Plan(const AttentionKernel& kernel, AttentionPlan& plan) {
    DeviceBuffer workspace =
        Take(backend_->device().Allocate(kernel.WorkspaceBytes(attention_.Batch())));
    Require(kernel.Plan(attention_.Batch(), workspace, *stream_, plan));
    return workspace;
  }
  void Attend(const AttentionKernel& kernel, const AttentionPlan& plan,
              const KvSelection& selection, std::vector<float>& out) {
    Require(kernel.Run(plan, attention_.Layer(out.data()), selection, *stream_));
  }
  void Select() {
    constexpr float kBeta[] = {0.2f};
    Require(selector_.Run(blocks_plan_, attention_.Layer(sparse_out_.data()), 0, rules_,
                          {query_block_start_, budget_, kBeta}, {}, selector_workspace_, *stream_,
                          selection_));
  }

  bool Reads(int head, int query, int key) const {
    const SelectBlocks& lists = selection_.lists;
    const std::int64_t row =
        query / kSelectionBlock - (prompt_.tokens - prompt_.chunk) / kSelectionBlock;
    const std::int64_t index = row * arguments_.shape.num_heads + head;
    if (lists.list_length[index] == kAllBlocks) return true;
    const std::uint16_t* list = lists.blocks + index * lists.capacity;
    return std::binary_search(list, list + lists.list_length[index], key / kSelectionBlock);
  }

  // The largest share of its bound that a sparse output's error takes up.
  double WorstOfBound() const {
    const bool bf16_products = arguments_.shape.kv_dtype == DType::kBF16 &&
                               !arguments_.options.full_precision &&
                               backend_->ops().gemm_input_dtype() == DType::kBF16;
    const PagedAttentionCase::Reference reference = attention_.ComputeReference(
        bf16_products ? DType::kBF16 : DType::kF32, 1 + prompt_.chunk / 6,
        [&](int, int head, int query, int key) { return Reads(head, query, key); });
    double worst = 0;
    for (std::size_t i = 0; i < sparse_out_.size(); ++i) {
      if (std::isinf(reference.bound[i])) continue;
      const double share = std::fabs(sparse_out_[i] - reference.out[i]) / reference.bound[i];
      if (!(share <= 1)) Fail("wrong result at element " + std::to_string(i));
      worst = std::max(worst, share);
    }
    return worst;
  }

  // Listed blocks as a share of the causal ones.
  double Density() const {
    double listed = 0, causal = 0;
    const int first = (prompt_.tokens - prompt_.chunk) / kSelectionBlock;
    for (int row = 0; row < query_block_start_[1]; ++row) {
      for (int head = 0; head < arguments_.shape.num_heads; ++head) {
        const std::int32_t length =
            selection_.lists.list_length[row * arguments_.shape.num_heads + head];
        listed += length == kAllBlocks ? first + row + 1 : length;
        causal += first + row + 1;
      }
    }
    return listed / causal;
  }

  void Print(const std::string& part, const std::vector<double>& seconds, double dense,
             double error) const {
    nlohmann::ordered_json line;
    line["bench"] = "block_attention";
    line["case"] = part;
    line["device"] = backend_->device().Description();
    line["commit"] = arguments_.commit;
    line["command"] = arguments_.command;
    line["value"] = seconds[seconds.size() / 2] * 1e3;
    line["unit"] = "ms/layer";
    line["best"] = seconds.front() * 1e3;
    line["best_of_dense"] = seconds.front() / dense;
    line["density"] = Density();
    line["worst_error_of_bound"] = error;
    std::cout << line.dump() << std::endl;
  }

  const Arguments& arguments_;
  const Prompt& prompt_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  PagedAttentionCase attention_;
  const AttentionKernel& all_;
  const AttentionKernel& blocks_;
  const BlockSelector& selector_;
  AttentionPlan all_plan_, blocks_plan_;
  DeviceBuffer all_workspace_, blocks_workspace_, selector_workspace_;
  BlockSelectionRules rules_;
  std::vector<std::int32_t> budget_, query_block_start_;
  BlockSelection selection_;
  std::vector<float> dense_out_, full_out_, sparse_out_;
};

}  // namespace
}  // namespace thresher

int main(int argc, char** argv) {
  thresher::Prompt prompt;
  const auto own = [&](const std::string& name, const std::string& value) {
    if (name == "--tokens") {
      prompt.tokens = thresher::ParseCount(value);
    } else if (name == "--chunk") {
      prompt.chunk = thresher::ParseCount(value);
    } else if (name == "--stride") {
      prompt.stride = thresher::ParseCount(value);
    } else if (name != "--density" || !absl::SimpleAtod(value, &prompt.density)) {
      return false;
    }
    return true;
  };
  const thresher::Arguments arguments = thresher::Parse("block_attention_bench", argc, argv, own);
  if (prompt.chunk == 0) prompt.chunk = prompt.tokens;
  if (prompt.chunk > prompt.tokens) thresher::Fail("--chunk is more than --tokens");
  thresher::Bench(arguments, prompt).Run();
  return 0;
}
