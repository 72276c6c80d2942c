// Every query reads every cached position.
#include "engine/attention/policies/policies.h"

namespace thresher {
namespace {

class DensePolicy final : public AttentionPolicy, public LayerSelector {
 public:
  absl::StatusOr<LayerSelector*> Plan(std::span<const SequenceAttention>, Stream&) override {
    return this;
  }
  absl::StatusOr<KvSelection> Select(int, const AttentionPlan&, const AttentionLayer&,
                                     Stream&) override {
    return SelectAll{};
  }
};

class DenseKind final : public PolicyKind {
 public:
  const PolicyDescription& description() const override { return description_; }
  AttentionMechanism mechanism() const override { return AttentionMechanism::kAll; }
  absl::Status Check(const ParameterValues&, const AttentionCatalog&,
                     const std::string&) const override {
    return absl::OkStatus();
  }
  PrefillFootprint FootprintOf(const ParameterValues&, int prompt_length,
                               const AttentionCatalog&) const override {
    return {.first_row = prompt_length};
  }
  std::uint64_t DecodeSalt(const ParameterValues&) const override { return 0; }
  absl::StatusOr<std::unique_ptr<AttentionPolicy>> Create(const PolicyResources&) const override {
    return std::make_unique<DensePolicy>();
  }

 private:
  const PolicyDescription description_ = {.name = "dense",
                                          .prefill = true,
                                          .decode = true,
                                          .parameters = {},
                                          .help = "Every query reads every cached position."};
};

}  // namespace

const PolicyKind& DensePolicyKind() {
  static const DenseKind kind;
  return kind;
}

}  // namespace thresher
