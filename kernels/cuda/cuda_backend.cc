// One GPU with its ops and kernels, and the plugin's entry.
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/attention/attention_all.h"
#include "kernels/cuda/attention/cuda_attention_plan.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_transformer_ops.h"
#include "kernels/cuda/plugin.h"
#include "kernels/cuda/refusals.h"

namespace thresher {
namespace {

class CudaBackend final : public Backend {
 public:
  CudaBackend(const BackendOptions& options, std::unique_ptr<CudaDevice> device,
              std::unique_ptr<UploadRing> ring, std::unique_ptr<PlanUploader> uploader,
              std::unique_ptr<CudaGemm> gemm, std::vector<std::unique_ptr<AttentionKernel>> kernels)
      : device_(std::move(device)),
        ring_(std::move(ring)),
        uploader_(std::move(uploader)),
        ops_(options.full_precision, *device_, *ring_, std::move(gemm)),
        kernels_(std::move(kernels)) {}

  Device& device() override { return *device_; }
  TransformerOps& ops() override { return ops_; }
  const KernelTable& kernels() const override { return kernels_; }
  const ScoreObserver& score_observer() const override { return score_observer_; }
  const BlockSelector& block_selector() const override { return block_selector_; }
  // A device that cannot be bound fails the first call that uses it.
  void BindThread() override { device_->Bind().IgnoreError(); }

 private:
  // The others borrow the first three.
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<UploadRing> ring_;
  std::unique_ptr<PlanUploader> uploader_;
  CudaTransformerOps ops_;
  KernelTable kernels_;
  RefusingScoreObserver score_observer_;
  RefusingBlockSelector block_selector_;
};

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(int ordinal,
                                                           const BackendOptions& options) {
  absl::StatusOr<std::unique_ptr<CudaDevice>> device = OpenCudaDevice(ordinal);
  if (!device.ok()) return device.status();
  if (absl::Status status = (*device)->Bind(); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<CudaGemm>> gemm =
      CudaGemm::Create(**device, {.batch_invariant = options.batch_invariant,
                                  .choices_path = options.gemm_choices_path,
                                  .search_seconds = options.gemm_search_seconds,
                                  .report = options.report});
  if (!gemm.ok()) return gemm.status();
  auto ring = std::make_unique<UploadRing>();
  auto uploader = std::make_unique<PlanUploader>(*ring);
  auto kernels = MakeCudaAttentionAllKernels(options.full_precision,
                                             (*device)->num_multiprocessors(), *uploader);
  if (!kernels.ok()) return kernels.status();
  return std::make_unique<CudaBackend>(options, *std::move(device), std::move(ring),
                                       std::move(uploader), *std::move(gemm), *std::move(kernels));
}

}  // namespace
}  // namespace thresher

extern "C" __attribute__((visibility("default"))) void thresher_create_cuda_backend(
    int ordinal, const thresher::BackendOptions& options,
    absl::StatusOr<std::unique_ptr<thresher::Backend>>* backend) {
  *backend = thresher::CreateCudaBackend(ordinal, options);
}
