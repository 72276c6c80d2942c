// Products with the weights of Llama-3.1-8B on one GPU, JSON lines: the time of the way that a
// search chooses, of cuBLASLt's fastest algorithm in the same run, and the floor: the bytes at the
// rate of a plain read. Replayed from a graph, weights from memory, one after the other (`value`),
// and with a small kernel between two products as in a step (`in_step`, which holds that kernel's
// time too).
//   gpu_products_bench [--commit=C]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cuda/gemm/search.h"
#include "tests/bench/attention_bench_parts.h"
#include "tests/support/reference/numbers.h"

namespace thresher {
namespace {

// Bytes a second of a kernel that only reads, measured on one H200 by summing a gigabyte.
constexpr double kReadStream = 4.39e12;

class ProductsBench final {
 public:
  explicit ProductsBench(std::string commit)
      : commit_(std::move(commit)),
        device_(Take(OpenCudaDevice(0))),
        library_(Take(LibraryGemm::Create(*device_, false))),
        skinny_(Take(SkinnyGemm::Create(*device_))) {}

  void Run(std::int64_t rows, std::int64_t cols, DType out,
           const std::vector<std::int64_t>& counts) {
    const GemmShape shape = {DType::kBF16, rows, cols, out};
    const std::int64_t most = counts.back();
    const auto search = Take(GemmSearch::Create(*device_, *library_, skinny_, rows * cols * 2,
                                                most * cols * 2, most * rows * SizeOf(out)));
    for (const std::int64_t n : counts) Measure(*search, shape, n);
  }

 private:
  void Measure(GemmSearch& search, const GemmShape& shape, std::int64_t n) {
    float peer = std::numeric_limits<float>::infinity();
    for (const GemmChoice& choice : Take(search.Candidates(shape, n))) {
      if (std::holds_alternative<SkinnyConfig>(choice)) continue;
      const float took =
          Take(search.MillisecondsOf(shape, n, choice, GemmSearch::Between::kNothing));
      peer = std::min(peer, took);
    }
    const GemmChoice chosen = Take(search.Fastest(shape, n));
    const float took = Take(search.MillisecondsOf(shape, n, chosen, GemmSearch::Between::kNothing));
    const float in_step =
        Take(search.MillisecondsOf(shape, n, chosen, GemmSearch::Between::kSmallKernel));
    const double error = RelativeError(shape, n, chosen);
    const auto* config = std::get_if<SkinnyConfig>(&chosen);
    const std::string way = config == nullptr ? "cublaslt"
                                              : "skinny " + std::to_string(config->groups) + " " +
                                                    std::to_string(config->splits) + " " +
                                                    std::to_string(config->blocks_of_processor);
    const double m = static_cast<double>(n), r = static_cast<double>(shape.rows),
                 c = static_cast<double>(shape.cols);
    const double bytes = 2 * r * c + 2 * m * c + static_cast<double>(SizeOf(shape.out)) * m * r;
    const double us = took * 1e3, floor = bytes / kReadStream * 1e6;
    std::printf(
        "{\"bench\":\"gpu_products\",\"case\":\"%ldx%ldx%ld\",\"device\":\"%s\",\"commit\":\"%s\","
        "\"command\":\"gpu_products_bench\",\"value\":%.2f,\"unit\":\"us\",\"floor\":%.2f,"
        "\"ratio_to_floor\":%.3f,\"peer\":%.2f,\"ratio_to_peer\":%.3f,\"in_step\":%.2f,"
        "\"tflop_per_s\":%.1f,\"way\":\"%s\",\"relative_error\":%.5f}\n",
        static_cast<long>(n), static_cast<long>(shape.rows), static_cast<long>(shape.cols),
        device_->Description().c_str(), commit_.c_str(), us, floor, floor / us, peer * 1e3,
        peer / took, in_step * 1e3, 2 * m * r * c / us * 1e-6, way.c_str(), error);
    std::fflush(stdout);
    if (!(error < 1e-2)) Fail("relative error " + std::to_string(error));
  }

  // |out − exact| / |exact| over the first and last 64 rows of the weight; exact is the sum in
  // double.
  double RelativeError(const GemmShape& shape, std::int64_t n, const GemmChoice& choice) {
    const std::int64_t cols = shape.cols;
    const std::vector<float> w = Rounded(128 * cols, 1), x = Rounded(n * cols, 2);
    const GemmShape part = {shape.dtype, 128, cols, shape.out};
    const DeviceBuffer weight = Send(w), input = Send(x);
    const DeviceBuffer out = Take(device_->Allocate(static_cast<std::size_t>(n * 128) * 4));
    const auto stream = Take(device_->CreateStream());
    const GemmCall call = {input.get(), weight.get(), nullptr, out.get(), n};
    if (const auto* config = std::get_if<SkinnyConfig>(&choice)) {
      Must(skinny_.Run(part, call, *config, HandleOf(*stream)));
    } else {
      // An algorithm for one shape is not one for another.
      Must(library_->Run(part, call, Take(library_->Find(part, n, 1)).front(), HandleOf(*stream)));
    }
    Must(stream->Synchronize());
    std::vector<std::uint32_t> got(static_cast<std::size_t>(n * 128));
    Must(device_->CopyToHost(out.get(), got.data(), got.size() * SizeOf(shape.out)));
    double difference = 0, size = 0;
    for (std::int64_t i = 0; i < std::min<std::int64_t>(n, 64); ++i) {
      for (std::int64_t row = 0; row < 128; ++row) {
        double exact = 0;
        for (std::int64_t k = 0; k < cols; ++k) {
          exact += static_cast<double>(x[i * cols + k]) * w[row * cols + k];
        }
        difference += std::pow(ReadElement(got.data(), shape.out, i * 128 + row) - exact, 2);
        size += exact * exact;
      }
    }
    return std::sqrt(difference / size);
  }

  static std::vector<float> Rounded(std::int64_t count, std::uint64_t seed) {
    std::vector<float> values = NormalValues(count, 1.0, seed);
    for (float& value : values) value = Bf16ToFloat(FloatToBf16(value));
    return values;
  }
  DeviceBuffer Send(const std::vector<float>& values) {
    std::vector<std::uint16_t> narrow(values.size());
    std::transform(values.begin(), values.end(), narrow.begin(), FloatToBf16);
    DeviceBuffer buffer = Take(device_->Allocate(narrow.size() * 2));
    Must(device_->CopyToDevice(narrow.data(), buffer.get(), narrow.size() * 2));
    return buffer;
  }
  static void Must(const absl::Status& status) {
    if (!status.ok()) Fail(status.ToString());
  }

  const std::string commit_;
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<LibraryGemm> library_;
  SkinnyGemm skinny_;
};

}  // namespace
}  // namespace thresher

int main(int argc, char** argv) {
  std::string commit;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    constexpr char kCommit[] = "--commit=";
    if (argument.rfind(kCommit, 0) != 0) thresher::Fail("unknown argument " + argument);
    commit = argument.substr(sizeof(kCommit) - 1);
  }
  thresher::ProductsBench bench(commit);
  const std::vector<std::int64_t> all = {1, 2, 4, 8, 16, 32, 64, 128, 256, 2048, 8192};
  for (const auto& [rows, cols] :
       {std::pair{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}}) {
    bench.Run(rows, cols, thresher::DType::kBF16, all);
  }
  bench.Run(128256, 4096, thresher::DType::kF32, {1, 2, 4, 8, 16, 32, 64, 128, 256});
  return 0;
}
