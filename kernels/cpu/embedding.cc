// Rows of a table, dequantised as they are looked up.
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/gemm.h"

namespace thresher {

absl::Status EmbedRows(const CpuWeight& table, std::span<const std::int32_t> ids, TensorView out,
                       ThreadTeam& team) {
  const CpuWeight::Forms& forms = table.forms();
  if (!forms.table.has_value()) {
    return absl::InvalidArgumentError("embedding table is a weight packed for products");
  }
  const auto count = static_cast<std::int64_t>(ids.size());
  if (out.dtype != DType::kF32 || out.rank != 2 || out.shape[0] != count ||
      out.shape[1] != forms.cols) {
    return absl::InvalidArgumentError(absl::StrCat("embedding out is ", ToString(out), ", not f32[",
                                                   count, ", ", forms.cols, "]"));
  }
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= forms.rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("embedding id ", id, " is not within ", forms.rows, " rows"));
    }
  }
  team.ParallelRanges(count, forms.cols, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      forms.table->Dequantize(ids[static_cast<std::size_t>(i)], out.as<float>() + i * forms.cols);
    }
  });
  return absl::OkStatus();
}

}  // namespace thresher
