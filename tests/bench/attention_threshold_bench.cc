// Speed of thresholded decode against dense decode at SmolLM2-135M's heads (or as given), 8,192
// keys a sequence, one layer a call. Dense and sparse run in turn, so that a machine that others
// use slows both, and the best time of each counts. The layers' caches fill four times the
// third-level cache, so that keys come from memory. A JSON line a case: the share of value rows
// read (heads here are independent, the worst for a group), microseconds a layer, the speed-up, and
// what is asked of it, 0.8 · 2 / (1 + share). Outputs are checked against the double reference.
//
//   attention_threshold_bench [the arguments of attention_bench]
#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "nlohmann/json.hpp"
#include "tests/bench/attention_bench_parts.h"
#include "tests/support/reference/threshold_reference.h"

namespace thresher {
namespace {

constexpr int kContext = 8192;
constexpr int kCacheMebibytes = 4 * 32;  // four times the 32 MiB of the machine it was tuned on

// A kernel with its plan for one batch.
struct Planned {
  Planned(Backend& backend, Stream& stream, PagedAttentionCase& attention,
          AttentionMechanism mechanism)
      : kernel(*backend.kernels().Find({mechanism, AttentionPhase::kDecode,
                                        attention.shape().kv_dtype, attention.shape().head_dim})),
        workspace(Take(backend.device().Allocate(kernel.WorkspaceBytes(attention.Batch())))) {
    Require(kernel.Plan(attention.Batch(), workspace, stream, plan));
  }
  const AttentionKernel& kernel;
  DeviceBuffer workspace;
  AttentionPlan plan;
};

struct Case {
  std::string name;
  int batch = 1;
  ThresholdPlacement placement = ThresholdPlacement::kCentred;
  float theta = 0;
};

class Bench final {
 public:
  explicit Bench(const Arguments& arguments)
      : arguments_(arguments),
        backend_(Take(CreateBackend(DeviceKind::kCpu, 0, arguments.options))),
        stream_(Take(backend_->device().CreateStream())) {
    backend_->BindThread();
  }

  void Measure(const Case& test) {
    if (test.name.find(arguments_.filter) == std::string::npos) return;
    PagedAttentionShape shape = arguments_.shape;
    shape.out_dtype = backend_->ops().gemm_input_dtype();
    std::vector<PagedSequence> sequences;
    for (int i = 0; i < test.batch; ++i) {
      sequences.push_back({kContext - 1, 1, static_cast<std::uint64_t>(i)});
    }
    PagedAttentionCase attention(shape, sequences);
    const FlatThresholds flat(std::vector<float>(shape.num_heads, test.theta));
    const std::vector<std::int32_t> targets(sequences.size(), 128);
    SelectAboveThreshold selection;
    selection.grid = flat.grid();
    selection.targets = targets;
    selection.placement = test.placement;
    const Planned dense(*backend_, *stream_, attention, AttentionMechanism::kAll);
    const Planned sparse(*backend_, *stream_, attention, AttentionMechanism::kAboveThreshold);
    Check(attention, sparse.kernel, selection);

    Layers layers(attention, backend_->device(), kCacheMebibytes);
    std::vector<ThresholdCounts> counts(test.batch * shape.num_kv_heads);
    double best_dense = INFINITY, best_sparse = INFINITY;
    for (int run = 0; run < arguments_.runs; ++run) {
      const double start = arguments_.now();
      RunLayers(attention, dense, SelectAll{}, layers, nullptr);
      const double between = arguments_.now();
      RunLayers(attention, sparse, selection, layers, counts.data());
      best_dense = std::min(best_dense, between - start);
      best_sparse = std::min(best_sparse, arguments_.now() - between);
    }
    std::int64_t key_rows = 0, value_rows = 0;
    for (const ThresholdCounts& row : counts) {
      key_rows += row.key_rows;
      value_rows += row.value_rows;
    }
    const double share = static_cast<double>(value_rows) / static_cast<double>(key_rows);
    const double num_layers = static_cast<double>(layers.caches.size());
    Print(test.name, best_dense / num_layers, best_sparse / num_layers, share);
  }

 private:
  void RunLayers(PagedAttentionCase& attention, const Planned& planned,
                 const KvSelection& selection, const Layers& layers, ThresholdCounts* counts) {
    const PagedAttentionShape& shape = attention.shape();
    std::vector<float> out(attention.num_tokens() * shape.num_heads * shape.head_dim);
    const auto view = [&](float* values, DType dtype) {
      return TensorView::Of(values, dtype, attention.num_tokens(), shape.num_heads, shape.head_dim);
    };
    for (const KvCacheLayer& cache : layers.caches) {
      const AttentionLayer layer = {view(attention.Query(0, 0).data(), DType::kF32), cache,
                                    attention.scale(), view(out.data(), shape.out_dtype), counts};
      Require(planned.kernel.Run(planned.plan, layer, selection, *stream_));
    }
  }

  void Check(PagedAttentionCase& attention, const AttentionKernel& kernel,
             const SelectAboveThreshold& selection) {
    const std::vector<float> out = Take(attention.Run(kernel, *backend_, selection));
    const ThresholdReference reference = ComputeThresholdReference(attention, selection);
    const int dim = attention.shape().head_dim;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const ThresholdRow& row = reference.rows[i / dim];
      if (!(std::fabs(out[i] - row.output[i % dim]) <= row.bound)) {
        Fail("wrong result at element " + std::to_string(i));
      }
    }
  }

  void Print(const std::string& name, double dense, double sparse, double share) const {
    nlohmann::ordered_json line;
    line["bench"] = "attention_threshold";
    line["case"] = name;
    line["device"] = backend_->device().Description();
    line["commit"] = arguments_.commit;
    line["command"] = arguments_.command;
    line["value"] = sparse * 1e6;
    line["unit"] = "us/layer";
    line["dense"] = dense * 1e6;
    line["value_share"] = share;
    line["speed_up"] = dense / sparse;
    line["floor"] = 0.8 * 2 / (1 + share);
    line["peer"] = nullptr;
    std::cout << line.dump() << std::endl;
  }

  const Arguments& arguments_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
};

// Scores are normal, of deviation 1.5. A share of 0.1 of value rows among three heads is 3.45 % of
// a head's keys, 1.82 deviations up; 0.3 is 11.2 %, 1.22 up.
void MeasureAll(const Arguments& arguments) {
  Bench bench(arguments);
  using P = ThresholdPlacement;
  const float log_sum = std::log(static_cast<float>(kContext)) + 1.125f;  // of such scores
  for (const int batch : {1, 4}) {
    const std::string of = " batch " + std::to_string(batch) + " context 8192";
    bench.Measure({"decode centred 0.1" + of, batch, P::kCentred, 2.73f});
    bench.Measure({"decode centred 0.3" + of, batch, P::kCentred, 1.82f});
    bench.Measure({"decode pre 0.1" + of, batch, P::kPre, 2.73f});
    bench.Measure({"decode post 0.1" + of, batch, P::kPost, 2.73f - log_sum});
    bench.Measure({"decode centred all" + of, batch, P::kCentred, -100});
  }
}

}  // namespace
}  // namespace thresher

int main(int argc, char** argv) {
  thresher::MeasureAll(thresher::Parse("attention_threshold_bench", argc, argv));
  return 0;
}
