// One device with its ops and kernels. The only way into this folder for the engine.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/cpu_isa.h"
#include "kernels/device/device.h"
#include "kernels/ops/block_selector.h"
#include "kernels/ops/kernel_table.h"
#include "kernels/ops/score_observer.h"
#include "kernels/ops/tensor_parallel_group.h"
#include "kernels/ops/transformer_ops.h"

namespace thresher {

struct BackendOptions {
  int num_threads = 0;  // CPU threads of this rank; 0: all cores the process may use
  CpuIsa max_isa = CpuIsa::kAvx512Bf16;  // lower it to test the narrower paths
  // Weights and GEMM inputs in f32 even where bf16 is faster: for goldens.
  bool full_precision = false;
  // One product for each weight whatever the number of rows of input, so that a row's bits never
  // depend on its batch.
  bool batch_invariant = false;
  // File of a GPU that keeps which products were fastest, so that later starts need not try;
  // written by TransformerOps::Reserve. Empty: none. One that is damaged or of another machine is
  // replaced.
  std::string gemm_choices_path = {};
  // Time for trying, of a GPU; products that it does not reach take the library's first guess. 0:
  // nothing is tried.
  double gemm_search_seconds = 30;
  // Gets a line of key=value about what start-up found out, for the log, on the rank's thread.
  // Null: nobody listens.
  std::function<void(std::string_view)> report = nullptr;
};

// All parts are non-null and live as long as the backend. One thread at a time.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Device& device() = 0;
  virtual TransformerOps& ops() = 0;
  virtual const KernelTable& kernels() const = 0;
  virtual const ScoreObserver& score_observer() const = 0;
  // Makes the lists of mechanism `blocks`.
  virtual const BlockSelector& block_selector() const = 0;
  // Binds the calling thread to this backend's share of the cores. Each rank's worker calls it
  // once.
  virtual void BindThread() = 0;
};

// FailedPrecondition if the CPU has no AVX2; NotFound if there is no such device; Unimplemented if
// this build has no code for it. Each message says what to do.
absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(DeviceKind kind, int ordinal,
                                                       const BackendOptions& options);

// Whether this build has kernels for the mechanism on such a device: what a caller asks before it
// promises anything.
bool CarriesOut(DeviceKind kind, AttentionMechanism mechanism);

// The best instruction set of this machine, or FailedPrecondition.
absl::StatusOr<CpuIsa> DetectCpuIsa();

// CPU cores that the process may run on (its affinity mask), at least 1.
int NumUsableCores();

// `size` ranks of one process that meet in memory; element i is rank i. SoloGroup for size 1.
std::vector<std::unique_ptr<TensorParallelGroup>> CreateInProcessGroup(int size);

}  // namespace thresher
