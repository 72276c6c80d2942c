#include "kernels/cpu/gemm.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/gemm_scratch.h"
#include "kernels/cpu/panel_gemm.h"

namespace thresher {
namespace {

absl::Status CheckTensor(const char* name, const TensorView& tensor, DType dtype, std::int64_t rows,
                         std::int64_t cols) {
  if (tensor.data != nullptr && tensor.dtype == dtype && tensor.rank == 2 &&
      tensor.shape[0] == rows && tensor.shape[1] == cols) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "matmul ", name, " is ", ToString(tensor), tensor.data == nullptr ? " without data" : "",
      ", not ", std::string(Name(dtype)), "[", rows, ", ", cols, "]"));
}

absl::Status CheckBias(const TensorView& bias, std::int64_t rows) {
  if (bias.data == nullptr) return absl::OkStatus();
  if (bias.dtype == DType::kF32 && bias.rank == 1 && bias.shape[0] == rows) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("matmul bias is ", ToString(bias), ", not f32[", rows, "]"));
}

}  // namespace

GemmScratch::GemmScratch(const CpuGemmOptions& options, int num_threads)
    : parts_(std::make_unique<Parts>()) {
  parts_->kernels = KernelsFor(options);
  parts_->num_threads = num_threads;
  // f32 sums run in one order whichever loop they run in, so the faster loop may serve many rows.
  if (options.many_rows == ManyRowsGemm::kAsFewRows && parts_->kernels.bf16_input) {
    parts_->max_few_rows = std::numeric_limits<std::int64_t>::max();
  }
}
GemmScratch::GemmScratch(GemmScratch&&) noexcept = default;
GemmScratch& GemmScratch::operator=(GemmScratch&&) noexcept = default;
GemmScratch::~GemmScratch() = default;

absl::Status GemmScratch::Reserve(std::int64_t max_rows, std::int64_t max_cols) {
  Parts& parts = *parts_;
  max_rows = std::max(max_rows, parts.max_rows);
  max_cols = std::max(max_cols, parts.max_cols);
  const std::int64_t sums = std::min(max_rows, parts.max_few_rows) * (max_cols / 16 + 1) * 4;
  absl::StatusOr<AlignedBuffer> group_sums = AllocateAligned(sums);
  if (!group_sums.ok()) return group_sums.status();
  const std::int64_t strip_bytes = StripBytes(parts.kernels);
  absl::StatusOr<AlignedBuffer> strips = AllocateAligned(strip_bytes * parts.num_threads);
  if (!strips.ok()) return strips.status();
  parts.group_sums = *std::move(group_sums);
  parts.strips = *std::move(strips);
  parts.strip_bytes = strip_bytes;
  parts.max_rows = max_rows;
  parts.max_cols = max_cols;
  return absl::OkStatus();
}

absl::Status CpuMatMul(TensorView x, const CpuWeight& weight, TensorView bias, TensorView out,
                       GemmScratch& scratch, ThreadTeam& team) {
  const CpuWeight::Forms& forms = weight.forms();
  if (forms.table.has_value()) {
    return absl::InvalidArgumentError("matmul weight is a table of rows to look up");
  }
  const DType input = forms.bf16_input ? DType::kBF16 : DType::kF32;
  const std::int64_t num_rows = x.rank == 2 ? x.shape[0] : 0;
  if (absl::Status s = CheckTensor("x", x, input, num_rows, forms.cols); !s.ok()) return s;
  if (absl::Status s = CheckTensor("out", out, DType::kF32, num_rows, forms.rows); !s.ok()) {
    return s;
  }
  if (absl::Status s = CheckBias(bias, forms.rows); !s.ok()) return s;
  if (num_rows == 0) return absl::OkStatus();
  GemmScratch::Parts& parts = scratch.parts();
  if (num_rows > parts.max_rows || forms.cols > parts.max_cols ||
      team.num_threads() > parts.num_threads) {
    return absl::FailedPreconditionError(absl::StrCat(
        "matmul of ", num_rows, " rows and ", forms.cols, " columns on ", team.num_threads(),
        " threads exceeds the scratch reserved for ", parts.max_rows, " rows, ", parts.max_cols,
        " columns and ", parts.num_threads, " threads"));
  }
  if (parts.kernels.bf16_input != forms.bf16_input) {
    return absl::InvalidArgumentError("matmul scratch and weight were made with other options");
  }
  if (!forms.UsesPanels(num_rows)) {
    return parts.onednn.Multiply(x.data, num_rows, *forms.onednn, bias.as<const float>(),
                                 out.as<float>());
  }
  MultiplyPanels(forms, x.data, num_rows, bias.as<const float>(), out.as<float>(), parts, team);
  return absl::OkStatus();
}

}  // namespace thresher
