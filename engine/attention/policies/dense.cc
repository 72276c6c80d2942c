#include "engine/attention/policies/dense.h"

namespace thresher {
namespace {

class DensePolicy final : public AttentionPolicy, public LayerSelector {
 public:
  std::string_view name() const override { return "dense"; }
  bool Supports(AttentionPhase) const override { return true; }
  AttentionMechanism mechanism() const override { return AttentionMechanism::kAll; }
  absl::Status Validate(const PolicyChoice&, const AttentionShape&) const override {
    return absl::OkStatus();
  }
  absl::StatusOr<LayerSelector*> Plan(std::span<const SequenceAttention>, Stream&) override {
    return this;
  }
  absl::StatusOr<KvSelection> Select(int, const AttentionPlan&, const AttentionLayer&,
                                     Stream&) override {
    return SelectAll{};
  }
};

}  // namespace

std::unique_ptr<AttentionPolicy> CreateDensePolicy() { return std::make_unique<DensePolicy>(); }

}  // namespace thresher
