// Attention and products on one GPU, JSON lines: the time of a call among many captured ones, its
// share of the bytes or operations that it must do, and a check against the kernel that sums in
// f32.
//   gpu_kernels_bench [--filter=TEXT] [--commit=C] [--runs=N] [--in-order]
// Blocks of the cache lie scattered, or in order with --in-order. Shapes are those of Llama-3.1-8B:
// 32 query heads, 8 KV heads of 128, bf16, blocks of 64. peers of the same shapes: gpu_peers.py.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "tests/bench/attention_bench_parts.h"
#include "tests/support/random_weight.h"
#include "tests/support/reference/numbers.h"

namespace thresher {
namespace {

constexpr int kHeads = 32, kKvHeads = 8, kDim = 128, kBlock = 64;

struct Options {
  std::string filter, commit;
  bool scatters = true;
  int runs = 7;
};

class GpuBench final {
 public:
  explicit GpuBench(const Options& options)
      : options_(options),
        backend_(Take(CreateBackend(DeviceKind::kCuda, 0, {}))),
        stream_(Take(backend_->device().CreateStream())) {}

  void Decode(int batch, int context) {
    const std::string name = "decode_" + std::to_string(batch) + "x" + std::to_string(context);
    Attention(name, AttentionPhase::kDecode, std::vector<int>(batch, context - 1),
              std::vector<int>(batch, 1));
  }
  void MixedDecode() {
    std::vector<int> contexts(32, 4095);
    contexts[0] = 131071;
    Attention("decode_1x131072+31x4096", AttentionPhase::kDecode, contexts,
              std::vector<int>(32, 1));
  }
  void Prefill(int context, int query) {
    Attention("prefill_" + std::to_string(query) + "_on_" + std::to_string(context),
              AttentionPhase::kPrefill, {context}, {query});
  }

  void Product(int rows, int cols, int n) {
    const std::string name =
        "product_" + std::to_string(n) + "x" + std::to_string(rows) + "x" + std::to_string(cols);
    if (!Wanted(name)) return;
    const PackedWeight& weight = WeightOf(rows, cols);
    const DeviceBuffer x = Random(std::int64_t{n} * cols);
    const DeviceBuffer out = Take(backend_->device().Allocate(std::size_t(n) * rows * 4));
    const double seconds = Time([&](int) {
      Must(backend_->ops().MatMul(TensorView::Of(x.get(), DType::kBF16, n, cols), weight, {},
                                  TensorView::Of(out.get(), DType::kF32, n, rows), *stream_));
    });
    const double bytes = 2.0 * rows * cols + 2.0 * n * cols + 4.0 * n * rows;
    Report("gemm", name, seconds, bytes, 2.0 * n * rows * cols, "");
  }

 private:
  // One case: enough copies of the cache that the second level cannot hold them.
  void Attention(const std::string& name, AttentionPhase phase, const std::vector<int>& contexts,
                 const std::vector<int>& queries) {
    if (!Wanted(name)) return;
    std::vector<std::int32_t> query_start = {0}, context_length, tables, table_start;
    double keys = 0, pairs = 0;
    for (std::size_t i = 0; i < contexts.size(); ++i) {
      query_start.push_back(query_start.back() + queries[i]);
      context_length.push_back(contexts[i]);
      table_start.push_back(static_cast<std::int32_t>(tables.size()));
      const int length = contexts[i] + queries[i];
      for (int block = 0; block < (length + kBlock - 1) / kBlock; ++block) {
        tables.push_back(static_cast<std::int32_t>(tables.size()));
      }
      keys += length;
      pairs += queries[i] * (contexts[i] + 0.5 * (queries[i] + 1));
    }
    if (options_.scatters) std::shuffle(tables.begin(), tables.end(), std::mt19937_64(7));
    AttentionBatch batch = {.num_heads = kHeads,
                            .num_kv_heads = kKvHeads,
                            .head_dim = kDim,
                            .block_size = kBlock,
                            .query_start = query_start,
                            .first_row = {},
                            .context_length = context_length,
                            .block_tables = tables,
                            .block_table_start = table_start};
    const auto num_blocks = static_cast<std::int64_t>(tables.size());
    const std::int64_t elements = num_blocks * kKvHeads * kBlock * kDim;
    const int copies =
        phase == AttentionPhase::kPrefill ? 1 : 1 + static_cast<int>(200e6 / (4.0 * elements));
    std::vector<DeviceBuffer> k, v;
    for (int i = 0; i < copies; ++i) {
      k.push_back(Random(elements));
      v.push_back(Random(elements));
    }
    const std::int64_t rows = query_start.back();
    std::vector<float> q = NormalValues(std::min<std::int64_t>(rows, 4096) * kHeads * kDim, 1.5, 3);
    const DeviceBuffer q_there = Take(backend_->device().Allocate(rows * kHeads * kDim * 4));
    for (std::int64_t row = 0; row < rows; row += 4096) {
      const auto bytes =
          static_cast<std::size_t>(std::min<std::int64_t>(4096, rows - row)) * kHeads * kDim * 4;
      Must(backend_->device().CopyToDevice(q.data(), q_there.bytes_at(row * kHeads * kDim * 4),
                                           bytes));
    }
    const DeviceBuffer out = Take(backend_->device().Allocate(rows * kHeads * kDim * 4));
    AttentionLayer layer;
    layer.q = TensorView::Of(q_there.get(), DType::kF32, rows, kHeads, kDim);
    layer.out = TensorView::Of(out.get(), DType::kF32, rows, kHeads, kDim);
    layer.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(kDim)));
    const auto set = [&](int copy) {
      const auto view = [&](const DeviceBuffer& buffer) {
        return TensorView::Of(buffer.get(), DType::kBF16, num_blocks, kKvHeads, kBlock, kDim);
      };
      layer.cache = {view(k[copy % copies]), view(v[copy % copies])};
    };
    const AttentionKernel& kernel =
        *backend_->kernels().Find({AttentionMechanism::kAll, phase, DType::kBF16, kDim});
    DeviceBuffer workspace = Take(backend_->device().Allocate(kernel.WorkspaceBytes(batch)));
    AttentionPlan plan;
    Must(kernel.Plan(batch, workspace, *stream_, plan));
    const double seconds = Time([&](int i) {
      set(i);
      Must(kernel.Run(plan, layer, SelectAll{}, *stream_));
    });
    set(0);
    Must(kernel.Run(plan, layer, SelectAll{}, *stream_));
    Must(stream_->Synchronize());
    const double error = ErrorOfLastRows(layer, batch);
    Report("attention", name, seconds, 4.0 * keys * kKvHeads * kDim, 4.0 * pairs * kHeads * kDim,
           ",\"relative_error\":" + std::to_string(error));
    if (!(error < 1e-2)) Fail(name + ": relative error " + std::to_string(error));
  }

  // |out − exact| / |exact| over each sequence's last 16 queries; exact is what the kernel in f32
  // makes of them.
  double ErrorOfLastRows(AttentionLayer layer, const AttentionBatch& batch) {
    std::vector<std::int32_t> query_start = {0}, context_length, first_row;
    for (int i = 0; i < batch.num_sequences(); ++i) {
      const int queries = batch.query_start[i + 1] - batch.query_start[i];
      const int checked = std::min(16, queries);
      query_start.push_back(query_start.back() + checked);
      context_length.push_back(batch.context_length[i] + queries - checked);
      first_row.push_back(batch.query_start[i + 1] - checked);
    }
    AttentionBatch last = batch;
    last.query_start = query_start;
    last.context_length = context_length;
    last.first_row = first_row;
    const std::int64_t elements = layer.q.num_elements();
    std::vector<float> got(elements), exact(elements);
    const auto bytes = static_cast<std::size_t>(elements) * 4;
    Must(backend_->device().CopyToHost(layer.out.data, got.data(), bytes));
    const AttentionKernel& kernel = *backend_->kernels().Find(
        {AttentionMechanism::kAll, AttentionPhase::kDecode, DType::kBF16, 8});
    DeviceBuffer workspace = Take(backend_->device().Allocate(kernel.WorkspaceBytes(last)));
    AttentionPlan plan;
    Must(kernel.Plan(last, workspace, *stream_, plan));
    Must(kernel.Run(plan, layer, SelectAll{}, *stream_));
    Must(stream_->Synchronize());
    Must(backend_->device().CopyToHost(layer.out.data, exact.data(), bytes));
    double difference = 0, size = 0;
    for (int i = 0; i < last.num_sequences(); ++i) {
      const std::int64_t first = std::int64_t{first_row[i]} * kHeads * kDim;
      const std::int64_t count = std::int64_t{query_start[i + 1] - query_start[i]} * kHeads * kDim;
      for (std::int64_t j = first; j < first + count; ++j) {
        difference += std::pow(static_cast<double>(got[j]) - exact[j], 2);
        size += std::pow(static_cast<double>(exact[j]), 2);
      }
    }
    return std::sqrt(difference / size);
  }

  bool Wanted(const std::string& name) const {
    return name.find(options_.filter) != std::string::npos;
  }

  void Must(const absl::Status& status) const {
    if (!status.ok()) Fail(status.ToString());
  }

  // bf16 numbers, normal with deviation 1; a stretch of four million repeats.
  DeviceBuffer Random(std::int64_t count) {
    if (pattern_.empty()) {
      for (const float value : NormalValues(1 << 22, 1.0, 5)) {
        pattern_.push_back(FloatToBf16(value));
      }
    }
    DeviceBuffer buffer = Take(backend_->device().Allocate(static_cast<std::size_t>(count) * 2));
    for (std::int64_t at = 0; at < count; at += 1 << 22) {
      const std::int64_t some = std::min<std::int64_t>(1 << 22, count - at);
      Must(backend_->device().CopyToDevice(pattern_.data(), buffer.bytes_at(at * 2),
                                           static_cast<std::size_t>(some) * 2));
    }
    return buffer;
  }

  const PackedWeight& WeightOf(int rows, int cols) {
    if (weight_ == nullptr || weight_->rows() != rows || weight_->cols() != cols) {
      weight_ = nullptr;
      const RandomWeight weight = RandomWeight::Make(WeightFormat::kBF16, rows, cols, 1);
      const WeightSource parts[] = {weight.source()};
      weight_ = Take(backend_->ops().PackWeight(parts));
      Must(backend_->ops().Reserve(8192));
    }
    return *weight_;
  }

  // Seconds of a call among as many as take about 20 ms, captured and replayed as in a step; the
  // median of the runs.
  template <typename Call>
  double Time(const Call& call) {
    const auto queue = [&](int calls) {
      for (int i = 0; i < calls; ++i) call(i);
      return absl::OkStatus();
    };
    const auto seconds = [&](CapturedWork& work) {
      const double start = ClockSeconds();
      Must(work.Launch(*stream_));
      Must(stream_->Synchronize());
      return ClockSeconds() - start;
    };
    Must(queue(3));  // whatever is loaded lazily
    const auto few = Take(backend_->device().Capture(*stream_, [&] { return queue(3); }));
    seconds(*few);
    const int calls = std::clamp(static_cast<int>(0.06 / seconds(*few)), 2, 1000);
    const auto many = Take(backend_->device().Capture(*stream_, [&] { return queue(calls); }));
    std::vector<double> times;
    for (int i = 0; i <= options_.runs; ++i) times.push_back(seconds(*many) / calls);
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  void Report(const char* bench, const std::string& name, double seconds, double bytes,
              double operations, const std::string& more) const {
    std::printf(
        "{\"bench\":\"gpu_%s\",\"case\":\"%s\",\"device\":\"%s\",\"commit\":\"%s\",\"command\":"
        "\"gpu_kernels_bench\",\"value\":%.2f,\"unit\":\"us\",\"tb_per_s\":%.3f,\"tflop_per_s\":"
        "%.1f%s}\n",
        bench, name.c_str(), backend_->device().Description().c_str(), options_.commit.c_str(),
        seconds * 1e6, bytes / seconds * 1e-12, operations / seconds * 1e-12, more.c_str());
    std::fflush(stdout);
  }

  const Options options_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::uint16_t> pattern_;
  std::unique_ptr<PackedWeight> weight_;
};

}  // namespace
}  // namespace thresher

int main(int argc, char** argv) {
  thresher::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (name == "--filter") {
      options.filter = value;
    } else if (name == "--commit") {
      options.commit = value;
    } else if (name == "--in-order") {
      options.scatters = false;
    } else if (name == "--runs") {
      options.runs = thresher::ParseCount(value);
    } else {
      thresher::Fail("unknown argument " + argument);
    }
  }
  thresher::GpuBench bench(options);
  for (const auto& [batch, context] : {std::pair{1, 4096},
                                       {1, 32768},
                                       {1, 131072},
                                       {8, 4096},
                                       {32, 4096},
                                       {32, 8192},
                                       {64, 8192},
                                       {8, 32768}}) {
    bench.Decode(batch, context);
  }
  bench.MixedDecode();
  for (const int query : {2048, 4096, 8192, 16384, 32768}) bench.Prefill(0, query);
  bench.Prefill(32768, 2048);
  for (const auto& [rows, cols] : {std::pair{6144, 4096}, {28672, 4096}, {4096, 14336}}) {
    for (const int n : {1, 8, 64, 256, 2048, 8192}) bench.Product(rows, cols, n);
  }
  return 0;
}
