#include "tests/support/gemm_product.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "kernels/cpu/half_float.h"

namespace thresher {
namespace {

void AbortUnless(const absl::Status& status) {
  if (status.ok()) return;
  std::cerr << status << '\n';
  std::abort();
}

}  // namespace

std::vector<CpuGemmOptions> AllGemmOptions() {
  const absl::StatusOr<CpuIsa> best = DetectCpuIsa();
  std::vector<CpuGemmOptions> all;
  for (const CpuIsa isa : {CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Bf16}) {
    if (!best.ok() || isa > *best) break;
    for (const ManyRowsGemm many_rows :
         {ManyRowsGemm::kOneDnn, ManyRowsGemm::kBuiltIn, ManyRowsGemm::kAsFewRows}) {
      for (const bool full_precision : {false, true}) {
        all.push_back({.isa = isa, .many_rows = many_rows, .full_precision = full_precision});
      }
    }
  }
  return all;
}

std::string Describe(const CpuGemmOptions& options) {
  constexpr const char* kIsas[] = {"avx2", "avx512", "avx512bf16"};
  std::string text = kIsas[static_cast<int>(options.isa)];
  constexpr const char* kMany[] = {" fastest", " onednn", " built-in", " as-few-rows"};
  text += kMany[static_cast<int>(options.many_rows)];
  if (options.full_precision) text += " full-precision";
  return text;
}

GemmInput::GemmInput(const std::vector<float>& values, std::int64_t cols,
                     const CpuGemmOptions& options)
    : cols_(cols), dtype_(CpuGemmInputDType(options)), floats_(values) {
  for (const float value : values) halves_.push_back(FloatToBf16(value));
}

TensorView GemmInput::Rows(std::int64_t first, std::int64_t count) {
  void* data = floats_.data() + first * cols_;
  if (dtype_ == DType::kBF16) data = halves_.data() + first * cols_;
  return TensorView::Of(data, dtype_, count, cols_);
}

GemmProduct::GemmProduct(std::span<const WeightSource> parts, const CpuGemmOptions& options,
                         int num_threads)
    : team_(num_threads), scratch_(options, num_threads) {
  team_.BindCaller();
  absl::StatusOr<std::unique_ptr<CpuWeight>> weight = PackCpuWeight(parts, options, arena_, team_);
  AbortUnless(weight.status());
  weight_ = *std::move(weight);
  AbortUnless(scratch_.Reserve(1024, weight_->cols()));
}

std::vector<float> GemmProduct::Multiply(TensorView x, std::span<const float> bias) {
  constexpr float kGuard = 12345.0f;
  const auto count = static_cast<std::size_t>(x.shape[0] * weight_->rows());
  std::vector<float> out(count + 16, kGuard);
  TensorView added;
  if (!bias.empty()) {
    added = TensorView::Of(const_cast<float*>(bias.data()), DType::kF32, weight_->rows());
  }
  const TensorView result = TensorView::Of(out.data(), DType::kF32, x.shape[0], weight_->rows());
  AbortUnless(CpuMatMul(x, *weight_, added, result, scratch_, team_));
  const bool kept = std::all_of(out.begin() + static_cast<std::ptrdiff_t>(count), out.end(),
                                [](float value) { return value == kGuard; });
  if (!kept) AbortUnless(absl::InternalError("the product wrote past its output"));
  out.resize(count);
  return out;
}

}  // namespace thresher
