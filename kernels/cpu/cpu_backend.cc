#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/attention_all.h"
#include "kernels/cpu/attention_blocks.h"
#include "kernels/cpu/attention_ranked.h"
#include "kernels/cpu/attention_threshold.h"
#include "kernels/cpu/block_selector.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/cpu_transformer_ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/score_observer.h"

namespace thresher {
namespace {

std::string Describe(CpuIsa isa, int num_threads, const BackendOptions& options) {
  constexpr const char* kNames[] = {"avx2", "avx512", "avx512bf16"};
  return std::string("cpu ") + kNames[static_cast<int>(isa)] + ", " + std::to_string(num_threads) +
         (num_threads == 1 ? " thread" : " threads") +
         (options.full_precision ? ", full precision" : "") +
         (options.batch_invariant ? ", batch invariant" : "");
}

CpuGemmOptions GemmOptionsOf(CpuIsa isa, const BackendOptions& options) {
  return {.isa = isa,
          .many_rows = options.batch_invariant ? ManyRowsGemm::kAsFewRows : ManyRowsGemm::kFastest,
          .full_precision = options.full_precision};
}

std::vector<std::unique_ptr<AttentionKernel>> MakeAttentionKernels(CpuIsa isa,
                                                                   const BackendOptions& options,
                                                                   ThreadTeam& team) {
  auto kernels = MakeAttentionAllKernels(isa, options.full_precision, team);
  const auto add = [&](std::vector<std::unique_ptr<AttentionKernel>> more) {
    std::move(more.begin(), more.end(), std::back_inserter(kernels));
  };
  add(MakeAttentionThresholdKernels(isa, options.full_precision, team));
  add(MakeAttentionBlocksKernels(isa, options.full_precision, team));
  add(MakeAttentionRankedKernels(isa, options.full_precision, team));
  return kernels;
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(CpuIsa isa, int num_threads, const BackendOptions& options)
      : team_(num_threads),
        device_(Describe(isa, num_threads, options)),
        ops_(GemmOptionsOf(isa, options), team_),
        kernels_(MakeAttentionKernels(isa, options, team_)),
        score_observer_(isa, team_),
        block_selector_(MakeCpuBlockSelector(isa, team_)) {}

  Device& device() override { return device_; }
  TransformerOps& ops() override { return ops_; }
  const KernelTable& kernels() const override { return kernels_; }
  const ScoreObserver& score_observer() const override { return score_observer_; }
  const BlockSelector& block_selector() const override { return *block_selector_; }
  void BindThread() override { team_.BindCaller(); }

 private:
  ThreadTeam team_;  // first: the others borrow it
  CpuDevice device_;
  CpuTransformerOps ops_;
  KernelTable kernels_;
  CpuScoreObserver score_observer_;
  std::unique_ptr<BlockSelector> block_selector_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const BackendOptions& options) {
  if (options.num_threads < 0) {
    return absl::InvalidArgumentError("num_threads is " + std::to_string(options.num_threads) +
                                      ", expected 0 (all cores) or more");
  }
  const absl::StatusOr<CpuIsa> machine = DetectCpuIsa();
  if (!machine.ok()) return machine.status();
  const int num_threads = options.num_threads == 0 ? NumUsableCores() : options.num_threads;
  return std::make_unique<CpuBackend>(std::min(*machine, options.max_isa), num_threads, options);
}

}  // namespace thresher
