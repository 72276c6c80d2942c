// GEMM-only speed of a model of SmolLM2-135M's shapes: 30 layers of distinct weights and the head,
// so that weights come from memory as they do in a model. One JSON line for each shape and number
// of rows, and one for the whole model in tokens/s. Each line carries the floor, the time of
// reading the same bytes at the bandwidth measured first, and each shape is checked against the
// double reference in the same run.
//
//   gemm_bench [--isa=avx2|avx512|avx512bf16] [--built-in|--onednn|--as-few-rows]
//              [--full-precision] [--format=Q4_1] [--head-format=Q8_0] [--threads=2]
//              [--rows=1,2,4,8,16,17,32,64,512] [--runs=15]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "kernels/cpu/gemm.h"
#include "nlohmann/json.hpp"
#include "tests/support/gemm_product.h"
#include "tests/support/gemm_reference.h"
#include "tests/support/random_weight.h"

namespace thresher {
namespace {

constexpr int kLayers = 30;

struct Arguments {
  CpuGemmOptions options;
  WeightFormat format = WeightFormat::kQ4_1;
  WeightFormat head_format = WeightFormat::kQ8_0;
  int num_threads = 2;
  int runs = 15;
  std::vector<std::int64_t> rows = {1, 2, 4, 8, 16, 17, 32, 64, 512};
};

struct Shape {
  const char* name;
  std::int64_t cols;
  std::int64_t rows;
};
constexpr Shape kShapes[] = {
    {"qkv", 576, 960}, {"output", 576, 576}, {"gate_up", 576, 3072}, {"down", 1536, 576}};
constexpr Shape kHead = {"head", 576, 49152};

[[noreturn]] void Fail(const std::string& message) {
  std::cerr << message << '\n';
  std::exit(1);
}

void Require(const absl::Status& status) {
  if (!status.ok()) Fail(status.ToString());
}

WeightFormat ParseFormat(const std::string& name) {
  for (const WeightFormat format : kAllWeightFormats) {
    if (Name(format) == name) return format;
  }
  Fail("unknown weight format " + name);
}

CpuIsa ParseIsa(const std::string& name) {
  if (name == "avx2") return CpuIsa::kAvx2;
  if (name == "avx512") return CpuIsa::kAvx512;
  if (name == "avx512bf16") return CpuIsa::kAvx512Bf16;
  Fail("unknown instruction set " + name);
}

int ParseCount(const std::string& text) {
  int count = 0;
  if (!absl::SimpleAtoi(text, &count) || count < 1) Fail("not a positive number: " + text);
  return count;
}

Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  const absl::StatusOr<CpuIsa> isa = DetectCpuIsa();
  Require(isa.status());
  arguments.options.isa = *isa;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (name == "--isa") {
      arguments.options.isa = ParseIsa(value);
    } else if (name == "--built-in") {
      arguments.options.many_rows = ManyRowsGemm::kBuiltIn;
    } else if (name == "--as-few-rows") {
      arguments.options.many_rows = ManyRowsGemm::kAsFewRows;
    } else if (name == "--onednn") {
      arguments.options.many_rows = ManyRowsGemm::kOneDnn;
    } else if (name == "--full-precision") {
      arguments.options.full_precision = true;
    } else if (name == "--format") {
      arguments.format = ParseFormat(value);
    } else if (name == "--head-format") {
      arguments.head_format = ParseFormat(value);
    } else if (name == "--threads") {
      arguments.num_threads = ParseCount(value);
    } else if (name == "--runs") {
      arguments.runs = ParseCount(value);
    } else if (name == "--rows") {
      arguments.rows.clear();
      for (const absl::string_view count : absl::StrSplit(value, ',')) {
        arguments.rows.push_back(ParseCount(std::string(count)));
      }
    } else {
      Fail("unknown argument " + argument);
    }
  }
  return arguments;
}

double SecondsOf(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Bytes a second that the team reads from memory: best of ten passes over 256 MiB, eight
// independent sums a thread.
double ReadBandwidth(ThreadTeam& team) {
  std::vector<std::uint64_t> memory(std::size_t{32} << 20, 1);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(team.num_threads()) * 8);
  double best = 1e9;
  for (int pass = 0; pass < 10; ++pass) {
    best = std::min(
        best, SecondsOf([&] {
          team.ForEachThread([&](int thread) {
            const std::size_t share = memory.size() / static_cast<std::size_t>(team.num_threads());
            const std::uint64_t* from = memory.data() + share * static_cast<std::size_t>(thread);
            std::uint64_t sum[8] = {};
            for (std::size_t i = 0; i + 8 <= share; i += 8) {
              for (std::size_t j = 0; j < 8; ++j) sum[j] += from[i + j];
            }
            for (std::size_t j = 0; j < 8; ++j)
              sums[static_cast<std::size_t>(thread) * 8 + j] += sum[j];
          });
        }));
  }
  if (sums[0] == 0) Fail("nothing was read");
  return static_cast<double>(memory.size()) * 8.0 / best;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class ModelBench {
 public:
  explicit ModelBench(const Arguments& arguments)
      : arguments_(arguments),
        team_(arguments.num_threads),
        scratch_(arguments.options, arguments.num_threads) {
    team_.BindCaller();
    bandwidth_ = ReadBandwidth(team_);
    for (const Shape& shape : kShapes) {
      const RandomWeight weight = RandomWeight::Make(arguments.format, shape.rows, shape.cols, 1);
      for (int layer = 0; layer < kLayers; ++layer) Pack(shape.name, weight);
      max_out_ = std::max(max_out_, shape.rows);
    }
    Pack(kHead.name, RandomWeight::Make(arguments.head_format, kHead.rows, kHead.cols, 2));
    const std::int64_t max_rows = *std::max_element(arguments.rows.begin(), arguments.rows.end());
    Require(scratch_.Reserve(max_rows, 1536));
    x_ = RandomBf16Values(static_cast<std::size_t>(max_rows * 1536), 3);
    // Prefill needs the logits of one row only.
    out_.resize(static_cast<std::size_t>(
        std::max(max_rows * max_out_, std::min(max_rows, kHeadRows) * kHead.rows)));
  }

  void Run(std::int64_t num_rows) {
    std::map<std::string, std::vector<double>> times;
    std::vector<double> totals;
    for (int run = -2; run < arguments_.runs; ++run) {  // two to warm up
      std::map<std::string, double> seconds;
      double total = 0;
      for (int layer = 0; layer < kLayers; ++layer) {
        for (const Shape& shape : kShapes) {
          seconds[shape.name] += Multiply(shape.name, layer, num_rows);
        }
      }
      seconds[kHead.name] = Multiply(kHead.name, 0, HeadRows(num_rows));
      for (const auto& [name, value] : seconds) total += value;
      if (run < 0) continue;
      for (const auto& [name, value] : seconds) times[name].push_back(value);
      totals.push_back(total);
    }
    double floor = 0;
    for (const auto& [name, values] : times) {
      const bool head = name == kHead.name;
      floor += Report(name, head ? HeadRows(num_rows) : num_rows, head ? 1 : kLayers, values);
    }
    const double rows = static_cast<double>(num_rows);
    Print("model", num_rows,
          {{"value", rows / Median(totals)},
           {"unit", "tokens/s"},
           {"best", rows / *std::min_element(totals.begin(), totals.end())},
           {"floor", rows / floor},
           {"ratio_to_floor", Median(totals) / floor}});
  }

 private:
  static constexpr std::int64_t kHeadRows = 64;
  static std::int64_t HeadRows(std::int64_t num_rows) {
    return num_rows > kHeadRows ? 1 : num_rows;
  }

  void Pack(const std::string& name, const RandomWeight& weight) {
    const WeightSource parts[] = {weight.source()};
    absl::StatusOr<std::unique_ptr<CpuWeight>> packed =
        PackCpuWeight(parts, arguments_.options, arena_, team_);
    Require(packed.status());
    weights_[name].push_back(*std::move(packed));
    if (weights_[name].size() == 1) Check(name, weight);
  }

  // The first 40 output rows in a product of their own, as any tile is like any other.
  void Check(const std::string& name, const RandomWeight& weight) {
    std::vector<std::int32_t> order;
    for (std::int32_t row = 0; row < 40; ++row) order.push_back(row);
    WeightSource source = weight.source();
    source.row_order = order;
    const WeightSource parts[] = {source};
    GemmProduct product(parts, arguments_.options, arguments_.num_threads);
    const std::vector<float> x = RandomBf16Values(static_cast<std::size_t>(40 * weight.cols), 4);
    GemmInput input(x, weight.cols, arguments_.options);
    const bool bf16 = CpuGemmInputDType(arguments_.options) == DType::kBF16;
    double worst = 0;
    for (const std::int64_t num_rows : {1, 8, 40}) {
      const bool integers =
          num_rows <= kMaxPanelRows || arguments_.options.many_rows == ManyRowsGemm::kAsFewRows;
      const Bf16Rounding rounding = !bf16      ? Bf16Rounding::kNone
                                    : integers ? Bf16Rounding::kPlain
                                               : Bf16Rounding::kAll;
      const ReferenceProduct wanted =
          MultiplyReference(MakeReference(parts, rounding), x, num_rows, {});
      const std::vector<float> out = product.Multiply(input.Rows(0, num_rows), {});
      for (std::size_t i = 0; i < out.size(); ++i) {
        const double error = std::abs(static_cast<double>(out[i]) - wanted.values[i]);
        worst = std::max(worst, error / (wanted.magnitudes[i] * RelativeBound(weight.cols)));
      }
    }
    if (!(worst <= 1)) Fail(name + ": the product leaves its bound by " + std::to_string(worst));
    error_of_bound_[name] = worst;
  }

  double Multiply(const std::string& name, int layer, std::int64_t num_rows) {
    const CpuWeight& weight = *weights_[name][static_cast<std::size_t>(layer)];
    const DType dtype = CpuGemmInputDType(arguments_.options);
    const TensorView x = TensorView::Of(x_.data(), dtype, num_rows, weight.cols());
    const TensorView out = TensorView::Of(out_.data(), DType::kF32, num_rows, weight.rows());
    return SecondsOf([&] { Require(CpuMatMul(x, weight, {}, out, scratch_, team_)); });
  }

  // Returns the floor in seconds.
  double Report(const std::string& name, std::int64_t num_rows, int count,
                const std::vector<double>& seconds) {
    const CpuWeight& weight = *weights_[name].front();
    const double flops =
        2.0 * count * static_cast<double>(num_rows * weight.rows() * weight.cols());
    const double bytes = count * static_cast<double>(weight.BytesRead(num_rows));
    const double median = Median(seconds), floor = bytes / bandwidth_;
    Print(name, num_rows,
          {{"value", flops / median * 1e-9},
           {"unit", "GFLOP/s"},
           {"us_each", median / count * 1e6},
           {"best_us_each", *std::min_element(seconds.begin(), seconds.end()) / count * 1e6},
           {"gb_per_s", bytes / median * 1e-9},
           {"floor", flops / floor * 1e-9},
           {"ratio_to_floor", median / floor},
           {"error_of_bound", error_of_bound_[name]}});
    return floor;
  }

  void Print(const std::string& name, std::int64_t num_rows, nlohmann::json line) {
    line["bench"] = "gemm";
    line["case"] = name + " " + std::to_string(num_rows) + " rows";
    line["options"] = Describe(arguments_.options) + " " + std::string(Name(arguments_.format)) +
                      "/" + std::string(Name(arguments_.head_format)) + " " +
                      std::to_string(arguments_.num_threads) + " threads";
    line["read_gb_per_s"] = bandwidth_ * 1e-9;
    std::cout << line.dump() << std::endl;
  }

  Arguments arguments_;
  ThreadTeam team_;
  WeightArena arena_;
  GemmScratch scratch_;
  double bandwidth_ = 0;
  std::int64_t max_out_ = 0;
  std::map<std::string, std::vector<std::unique_ptr<CpuWeight>>> weights_;
  std::map<std::string, double> error_of_bound_;
  std::vector<float> x_, out_;
};

}  // namespace
}  // namespace thresher

int main(int argc, char** argv) {
  const thresher::Arguments arguments = thresher::Parse(argc, argv);
  thresher::ModelBench bench(arguments);
  for (const std::int64_t rows : arguments.rows) bench.Run(rows);
}
