#include "tests/support/mirrored_backend.h"

#include <map>
#include <utility>
#include <vector>

namespace thresher {
namespace {

// The device's copies of one call's tensors. Views of the same memory share a copy.
class Mirror final {
 public:
  explicit Mirror(Device& device) : device_(device) {}

  TensorView Of(const TensorView& host) {
    if (host.data == nullptr) return host;
    const auto bytes = static_cast<std::size_t>(host.num_bytes());
    Copy& copy = copies_[host.data];
    if (copy.memory.get() == nullptr || copy.bytes < bytes) {
      copy.memory = device_.Allocate(bytes).value();
      copy.bytes = bytes;
      Keep(device_.CopyToDevice(host.data, copy.memory.get(), bytes));
    }
    TensorView there = host;
    there.data = copy.memory.get();
    return there;
  }

  KvCacheLayer Of(const KvCacheLayer& cache) {
    return {Of(cache.k), Of(cache.v), Of(cache.k_sums), Of(cache.v_sums)};
  }

  // Waits for the stream and copies everything back. The first error of all, `status` first.
  absl::Status Finish(absl::Status status, Stream& stream) {
    Keep(std::move(status));
    Keep(stream.Synchronize());
    for (const auto& [host, copy] : copies_) {
      Keep(device_.CopyToHost(copy.memory.get(), host, copy.bytes));
    }
    return status_;
  }

 private:
  struct Copy {
    DeviceBuffer memory;
    std::size_t bytes = 0;
  };
  void Keep(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  Device& device_;
  std::map<void*, Copy> copies_;
  absl::Status status_;
};

class MirroredOps final : public TransformerOps {
 public:
  MirroredOps(TransformerOps& ops, Device& device) : ops_(ops), device_(device) {}

  DType gemm_input_dtype() const override { return ops_.gemm_input_dtype(); }
  DType activation_dtype() const override { return ops_.activation_dtype(); }
  absl::Status Reserve(std::int64_t max_rows) override { return ops_.Reserve(max_rows); }
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackWeight(
      std::span<const WeightSource> parts) override {
    return ops_.PackWeight(parts);
  }
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackEmbedding(const WeightSource& source) override {
    return ops_.PackEmbedding(source);
  }
  absl::Status Stage(const StepArrays& arrays, Stream& stream) override {
    return ops_.Stage(arrays, stream);
  }
  absl::Status ReserveDraws(int max_draws) override { return ops_.ReserveDraws(max_draws); }
  absl::Status Embed(const PackedWeight& table, std::span<const std::int32_t> ids, TensorView out,
                     Stream& stream) override {
    Mirror mirror(device_);
    return mirror.Finish(ops_.Embed(table, ids, mirror.Of(out), stream), stream);
  }
  absl::Status MatMul(TensorView x, const PackedWeight& weight, TensorView bias, TensorView out,
                      Stream& stream) override {
    Mirror mirror(device_);
    return mirror.Finish(ops_.MatMul(mirror.Of(x), weight, mirror.Of(bias), mirror.Of(out), stream),
                         stream);
  }
  absl::Status RmsNorm(TensorView x, TensorView weight, float epsilon, TensorView out,
                       Stream& stream) override {
    Mirror mirror(device_);
    return mirror.Finish(
        ops_.RmsNorm(mirror.Of(x), mirror.Of(weight), epsilon, mirror.Of(out), stream), stream);
  }
  absl::Status AddRmsNorm(TensorView x, TensorView residual, TensorView weight, float epsilon,
                          TensorView out, Stream& stream) override {
    Mirror mirror(device_);
    return mirror.Finish(ops_.AddRmsNorm(mirror.Of(x), mirror.Of(residual), mirror.Of(weight),
                                         epsilon, mirror.Of(out), stream),
                         stream);
  }
  absl::Status RotateAndAppend(TensorView qkv, const QkvShape& shape, const QkNorm& norm,
                               const RotaryTable& rotary, std::span<const std::int32_t> positions,
                               std::span<const std::int64_t> slot_mapping, TensorView q,
                               const KvCacheLayer& cache, Stream& stream) override {
    Mirror mirror(device_);
    const QkNorm norm_there = {mirror.Of(norm.q_weight), mirror.Of(norm.k_weight), norm.epsilon};
    return mirror.Finish(
        ops_.RotateAndAppend(mirror.Of(qkv), shape, norm_there,
                             {mirror.Of(rotary.cos_sin), rotary.rotary_dim}, positions,
                             slot_mapping, mirror.Of(q), mirror.Of(cache), stream),
        stream);
  }
  absl::Status SiluMul(TensorView gate_up, TensorView out, Stream& stream) override {
    Mirror mirror(device_);
    return mirror.Finish(ops_.SiluMul(mirror.Of(gate_up), mirror.Of(out), stream), stream);
  }
  absl::Status GatherRows(TensorView x, std::span<const std::int32_t> rows, TensorView out,
                          Stream& stream) override {
    Mirror mirror(device_);
    return mirror.Finish(ops_.GatherRows(mirror.Of(x), rows, mirror.Of(out), stream), stream);
  }
  absl::Status Sample(TensorView logits, std::span<const SamplingRow> rows,
                      std::span<SampledToken> out, Stream& stream) override {
    Mirror mirror(device_);
    return mirror.Finish(ops_.Sample(mirror.Of(logits), rows, out, stream), stream);
  }
  absl::Status ScoreTokens(TensorView logits, std::span<const std::int32_t> targets,
                           std::span<const int> num_top, std::span<SampledToken> out,
                           Stream& stream) override {
    Mirror mirror(device_);
    return mirror.Finish(ops_.ScoreTokens(mirror.Of(logits), targets, num_top, out, stream),
                         stream);
  }

 private:
  TransformerOps& ops_;
  Device& device_;
};

class MirroredKernel final : public AttentionKernel {
 public:
  MirroredKernel(const AttentionKernel& kernel, Device& device)
      : kernel_(kernel), device_(device) {}

  AttentionKey key() const override { return kernel_.key(); }
  std::size_t WorkspaceBytes(const AttentionBatch& largest) const override {
    return kernel_.WorkspaceBytes(largest);
  }
  absl::Status Plan(const AttentionBatch& batch, DeviceBuffer& workspace, Stream& stream,
                    AttentionPlan& plan) const override {
    return kernel_.Plan(batch, workspace, stream, plan);
  }
  absl::Status Run(const AttentionPlan& plan, const AttentionLayer& layer,
                   const KvSelection& selection, Stream& stream) const override {
    Mirror mirror(device_);
    AttentionLayer there = layer;
    there.q = mirror.Of(layer.q);
    there.cache = mirror.Of(layer.cache);
    there.out = mirror.Of(layer.out);
    return mirror.Finish(kernel_.Run(plan, there, selection, stream), stream);
  }

 private:
  const AttentionKernel& kernel_;
  Device& device_;
};

std::vector<std::unique_ptr<AttentionKernel>> MirrorKernels(Backend& backend) {
  std::vector<std::unique_ptr<AttentionKernel>> kernels;
  for (const std::unique_ptr<AttentionKernel>& kernel : backend.kernels().rows()) {
    kernels.push_back(std::make_unique<MirroredKernel>(*kernel, backend.device()));
  }
  return kernels;
}

class MirroredBackend final : public Backend {
 public:
  explicit MirroredBackend(std::unique_ptr<Backend> backend)
      : backend_(std::move(backend)),
        ops_(backend_->ops(), backend_->device()),
        kernels_(MirrorKernels(*backend_)) {}

  Device& device() override { return backend_->device(); }
  TransformerOps& ops() override { return ops_; }
  const KernelTable& kernels() const override { return kernels_; }
  const ScoreObserver& score_observer() const override { return backend_->score_observer(); }
  const BlockSelector& block_selector() const override { return backend_->block_selector(); }
  void BindThread() override { backend_->BindThread(); }

 private:
  std::unique_ptr<Backend> backend_;  // first: the others borrow it
  MirroredOps ops_;
  KernelTable kernels_;
};

}  // namespace

std::unique_ptr<Backend> MirrorBackend(std::unique_ptr<Backend> backend) {
  return std::make_unique<MirroredBackend>(std::move(backend));
}

}  // namespace thresher
