// Rows of a table, dequantised as they are looked up.
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/gemm.h"
#include "kernels/ops/op_checks.h"

namespace thresher {

absl::Status EmbedRows(const CpuWeight& table, std::span<const std::int32_t> ids, TensorView out,
                       ThreadTeam& team) {
  const CpuWeight::Forms& forms = table.forms();
  if (!forms.table.has_value()) {
    return absl::InvalidArgumentError("embedding table is a weight packed for products");
  }
  if (absl::Status status = CheckEmbed(forms.rows, forms.cols, ids, 0, out); !status.ok()) {
    return status;
  }
  const auto count = static_cast<std::int64_t>(ids.size());
  team.ParallelRanges(count, forms.cols, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      forms.table->Dequantize(ids[static_cast<std::size_t>(i)], out.as<float>() + i * forms.cols);
    }
  });
  return absl::OkStatus();
}

}  // namespace thresher
