// Speed of attention over all keys at SmolLM2-135M's heads (9 query, 3 KV, 64 wide, bf16 cache, or
// as given), one layer a call. One JSON line for each case. As many caches as a model's layers or
// as fill 64 MiB are used in turn, so that keys come from where they do in a model. The floor is,
// for decode, the time of reading the keys and values once at the bandwidth measured first; for
// prefill, the time that the backend's own product (MatMul, 512 x 1536 x 1536) takes for as many
// multiplications as the visible pairs of query and key need. Each case is checked against the
// double reference in the same run; a wrong result ends it with status 1.
//
//   attention_bench [--isa=avx2|avx512|avx512bf16] [--full-precision] [--threads=2] [--runs=15]
//                   [--kv=bf16|f16|f32] [--heads=9,3,64] [--filter=decode] [--commit=ID]
//                   [--processor-time]
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/parallel.h"
#include "nlohmann/json.hpp"
#include "tests/bench/attention_bench_parts.h"
#include "tests/support/reference/numbers.h"
#include "tests/support/reference/paged_attention_case.h"

namespace thresher {
namespace {

// Bytes a second that the threads read from memory: the best of ten passes over 128 MiB.
double ReadBandwidth(double (*now)(), int num_threads) {
  ThreadTeam team(num_threads);
  const std::vector<std::uint64_t> memory(std::size_t{16} << 20, 1);
  std::vector<std::uint64_t> sums(num_threads);
  const auto pass = [&] {
    team.ForEachThread([&](int thread) {
      const std::size_t share = memory.size() / num_threads;
      const std::uint64_t* from = memory.data() + share * thread;
      std::uint64_t sum[8] = {};
      for (std::size_t i = 0; i + 8 <= share; i += 8) {
        for (int j = 0; j < 8; ++j) sum[j] += from[i + j];
      }
      for (int j = 0; j < 8; ++j) sums[thread] += sum[j];
    });
  };
  return static_cast<double>(memory.size()) * 8 / TimesOf(now, 10, pass).best;
}

// Multiplications a second of the backend's own product.
double ProductRate(double (*now)(), Backend& backend) {
  constexpr std::int64_t kRows = 512, kSide = 1536;
  const std::vector<float> weight = NormalValues(kSide * kSide, 0.1, 1);
  WeightSource source;
  source.bytes = reinterpret_cast<const std::byte*>(weight.data());
  source.rows = source.cols = kSide;
  const std::unique_ptr<PackedWeight> packed = Take(backend.ops().PackWeight({&source, 1}));
  Require(backend.ops().Reserve(kRows));
  std::vector<std::uint32_t> x(kRows * kSide, 0x3f803f80u);
  std::vector<float> out(kRows * kSide);
  const std::unique_ptr<Stream> stream = Take(backend.device().CreateStream());
  const Times times = TimesOf(now, 5, [&] {
    Require(backend.ops().MatMul(
        TensorView::Of(x.data(), backend.ops().gemm_input_dtype(), kRows, kSide), *packed, {},
        TensorView::Of(out.data(), DType::kF32, kRows, kSide), *stream));
  });
  return static_cast<double>(kRows * kSide * kSide) / times.best;
}

class Bench final {
 public:
  explicit Bench(const Arguments& arguments)
      : arguments_(arguments),
        backend_(Take(CreateBackend(DeviceKind::kCpu, 0, arguments.options))),
        stream_(Take(backend_->device().CreateStream())) {
    backend_->BindThread();
    bandwidth_ = ReadBandwidth(arguments.now, arguments.options.num_threads);
    product_rate_ = ProductRate(arguments.now, *backend_);
  }

  void Measure(const std::string& name, AttentionPhase phase,
               const std::vector<PagedSequence>& sequences) {
    if (name.find(arguments_.filter) == std::string::npos) return;
    PagedAttentionShape shape = arguments_.shape;
    shape.out_dtype = backend_->ops().gemm_input_dtype();
    PagedAttentionCase attention(shape, sequences);
    const AttentionKernel* kernel =
        backend_->kernels().Find({AttentionMechanism::kAll, phase, shape.kv_dtype, shape.head_dim});
    if (kernel == nullptr) Fail("no kernel for " + name);
    const double error = WorstOfBound(attention, *kernel);

    Layers layers(attention, backend_->device(), 64);
    const AttentionBatch batch = attention.Batch();
    DeviceBuffer workspace = Take(backend_->device().Allocate(kernel->WorkspaceBytes(batch)));
    AttentionPlan plan;
    Require(kernel->Plan(batch, workspace, *stream_, plan));
    std::vector<float> q =
        NormalValues(attention.num_tokens() * shape.num_heads * shape.head_dim, 1.5, 3);
    std::vector<float> out(q.size());
    const auto view = [&](std::vector<float>& values, DType dtype) {
      return TensorView::Of(values.data(), dtype, attention.num_tokens(), shape.num_heads,
                            shape.head_dim);
    };
    const Times times = TimesOf(arguments_.now, arguments_.runs, [&] {
      for (const KvCacheLayer& cache : layers.caches) {
        const AttentionLayer layer = {view(q, DType::kF32), cache, attention.scale(),
                                      view(out, shape.out_dtype)};
        Require(kernel->Run(plan, layer, SelectAll{}, *stream_));
      }
    });
    const double num_layers = static_cast<double>(layers.caches.size());
    const double floor = phase == AttentionPhase::kDecode
                             ? static_cast<double>(attention.num_cache_bytes()) / bandwidth_
                             : Multiplications(shape, sequences) / product_rate_;
    Print(name, times, num_layers, floor, error);
  }

 private:
  static double Multiplications(const PagedAttentionShape& shape,
                                const std::vector<PagedSequence>& sequences) {
    double pairs = 0;
    for (const PagedSequence& sequence : sequences) {
      const double n = sequence.query_length;
      pairs += n * sequence.context_length + n * (n + 1) / 2;
    }
    return pairs * shape.num_heads * shape.head_dim * 2;
  }

  // The largest share of its bound that an output's error takes up.
  double WorstOfBound(PagedAttentionCase& attention, const AttentionKernel& kernel) {
    const std::vector<float> out = Take(attention.Run(kernel, *backend_));
    const bool bf16_products = attention.shape().out_dtype == DType::kBF16 &&
                               attention.shape().kv_dtype == DType::kBF16 &&
                               kernel.key().phase == AttentionPhase::kPrefill;
    const PagedAttentionCase::Reference reference =
        attention.ComputeReference(bf16_products ? DType::kBF16 : DType::kF32, 61);
    double worst = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (std::isinf(reference.bound[i])) continue;
      const double share = std::fabs(out[i] - reference.out[i]) / reference.bound[i];
      if (!(share <= 1)) Fail("wrong result at element " + std::to_string(i));
      worst = std::max(worst, share);
    }
    return worst;
  }

  void Print(const std::string& name, const Times& times, double num_layers, double floor,
             double error) const {
    nlohmann::ordered_json line;
    line["bench"] = "attention";
    line["case"] = name;
    line["device"] = backend_->device().Description();
    line["commit"] = arguments_.commit;
    line["command"] = arguments_.command;
    line["value"] = times.median / num_layers * 1e6;
    line["unit"] = "us/layer";
    line["best"] = times.best / num_layers * 1e6;
    line["floor"] = floor * 1e6;
    line["ratio_to_floor"] = times.median / num_layers / floor;
    line["worst_error_of_bound"] = error;
    line["peer"] = nullptr;
    std::cout << line.dump() << std::endl;
  }

  const Arguments& arguments_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  double bandwidth_ = 0;
  double product_rate_ = 0;
};

void MeasureAll(const Arguments& arguments) {
  Bench bench(arguments);
  bench.Measure("prefill 512", AttentionPhase::kPrefill, {{0, 512, 1}});
  bench.Measure("prefill 4096", AttentionPhase::kPrefill, {{0, 4096, 1}});
  for (const int context : {512, 4096, 16384}) {
    for (const int batch : {1, 8, 32}) {
      std::vector<PagedSequence> sequences;
      for (int i = 0; i < batch; ++i) {
        sequences.push_back({context - 1, 1, static_cast<std::uint64_t>(i)});
      }
      bench.Measure("decode batch " + std::to_string(batch) + " context " + std::to_string(context),
                    AttentionPhase::kDecode, sequences);
    }
  }
}

}  // namespace
}  // namespace thresher

int main(int argc, char** argv) {
  thresher::MeasureAll(thresher::Parse("attention_bench", argc, argv));
  return 0;
}
