#include "kernels/cpu/cpu_weight.h"

#include <algorithm>
#include <utility>

namespace thresher {
namespace {

bool UsesOneDnn(const CpuGemmOptions& options) {
  if (options.many_rows == ManyRowsGemm::kBuiltIn) return false;
  if (options.many_rows == ManyRowsGemm::kAsFewRows) return false;
  if (CpuGemmInputDType(options) == DType::kBF16) return OneDnnMultipliesBf16();
  return options.many_rows == ManyRowsGemm::kOneDnn && OneDnnMultipliesF32();
}

// Plain numbers keep their own width where the input is f32; there bf16 is exact.
PanelForm PlainForm(const WeightRows& part, bool bf16_input) {
  return bf16_input || part.format() == WeightFormat::kBF16 ? PanelForm::kBf16 : PanelForm::kF32;
}

// Panels pay beside oneDNN's form where they are smaller: fewer bytes to read.
bool PanelsAreSmaller(std::span<const WeightRows> parts, bool bf16_input) {
  return std::ranges::any_of(parts, [&](const WeightRows& part) {
    return part.whole_groups() || (!bf16_input && part.format() == WeightFormat::kBF16);
  });
}

}  // namespace

DType CpuGemmInputDType(const CpuGemmOptions& options) {
  return options.isa == CpuIsa::kAvx512Bf16 && !options.full_precision ? DType::kBF16 : DType::kF32;
}

PanelKernels KernelsFor(const CpuGemmOptions& options) {
  if (options.isa == CpuIsa::kAvx2) return PanelKernelsAvx2();
  if (CpuGemmInputDType(options) == DType::kF32) return PanelKernelsAvx512();
  return PanelKernelsAvx512Bf16();
}

CpuWeight::CpuWeight(std::unique_ptr<Forms> forms) : forms_(std::move(forms)) {}
CpuWeight::~CpuWeight() = default;
std::int64_t CpuWeight::rows() const { return forms_->rows; }
std::int64_t CpuWeight::cols() const { return forms_->cols; }

std::int64_t CpuWeight::num_bytes() const {
  std::int64_t bytes = forms_->onednn != nullptr ? forms_->onednn->num_bytes() : 0;
  for (const PanelSegment& segment : forms_->panels) bytes += segment.panel.num_bytes();
  return bytes;
}

std::int64_t CpuWeight::BytesRead(std::int64_t num_rows) const {
  if (forms_->table.has_value()) {
    const WeightRows& table = *forms_->table;
    return num_rows * (table.cols() / BlockElements(table.format())) * BlockBytes(table.format());
  }
  if (!forms_->UsesPanels(num_rows)) return forms_->onednn->num_bytes();
  std::int64_t bytes = 0;
  for (const PanelSegment& segment : forms_->panels) bytes += segment.panel.num_bytes();
  return bytes;
}

absl::StatusOr<std::unique_ptr<CpuWeight>> PackCpuWeight(std::span<const WeightSource> parts,
                                                         const CpuGemmOptions& options,
                                                         WeightArena& arena, ThreadTeam& team) {
  absl::StatusOr<std::vector<WeightRows>> checked = CheckWeightParts(parts);
  if (!checked.ok()) return checked.status();
  auto forms = std::make_unique<CpuWeight::Forms>();
  forms->bf16_input = CpuGemmInputDType(options) == DType::kBF16;
  forms->cols = checked->front().cols();
  for (const WeightRows& part : *checked) forms->rows += part.rows();
  if (UsesOneDnn(options)) {
    absl::StatusOr<std::unique_ptr<OneDnnWeight>> onednn =
        OneDnnWeight::Pack(*checked, forms->bf16_input, arena, team);
    if (!onednn.ok()) return onednn.status();
    forms->onednn = *std::move(onednn);
  }
  const bool smaller = !options.full_precision && PanelsAreSmaller(*checked, forms->bf16_input);
  if (forms->onednn == nullptr || smaller) {
    std::int64_t first_row = 0;
    for (const WeightRows& part : *checked) {
      absl::StatusOr<Panel> panel =
          Panel::Pack(part, PlainForm(part, forms->bf16_input), arena, team);
      if (!panel.ok()) return panel.status();
      forms->panels.push_back({first_row, *std::move(panel)});
      first_row += part.rows();
    }
  }
  return std::make_unique<CpuWeight>(std::move(forms));
}

absl::StatusOr<std::unique_ptr<CpuWeight>> PackCpuEmbedding(const WeightSource& source) {
  auto forms = std::make_unique<CpuWeight::Forms>();
  forms->table_order.assign(source.row_order.begin(), source.row_order.end());
  WeightSource kept = source;
  kept.row_order = forms->table_order;
  absl::StatusOr<WeightRows> table = WeightRows::Create(kept, "embedding");
  if (!table.ok()) return table.status();
  forms->rows = table->rows();
  forms->cols = table->cols();
  forms->table.emplace(*std::move(table));
  return std::make_unique<CpuWeight>(std::move(forms));
}

}  // namespace thresher
