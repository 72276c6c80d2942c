#include "kernels/cuda/gemm/library_gemm.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/row_kernels.h"

namespace thresher {
namespace {

// What NVIDIA advises for Hopper.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

absl::Status LtStatus(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(call, ": ", cublasLtGetStatusString(status)));
}

cudaDataType_t TypeOf(DType dtype) { return dtype == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF; }

// cuBLASLt counts columns first: outᵀ [rows, n] = weight [cols, rows]ᵀ · xᵀ [cols, n]. Descriptions
// lie on the stack, so a product allocates nothing.
struct Description {
  Description(const GemmShape& shape, std::int64_t n) {
    const cudaDataType_t type = TypeOf(shape.dtype);
    const auto rows = static_cast<std::uint64_t>(shape.rows);
    const auto cols = static_cast<std::uint64_t>(shape.cols);
    const auto count = static_cast<std::uint64_t>(n);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    status = LtStatus(cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                      "cublasLtMatmulDescInit");
    if (status.ok()) {
      status = LtStatus(cublasLtMatmulDescSetAttribute(&operation, CUBLASLT_MATMUL_DESC_TRANSA,
                                                       &transposed, sizeof(transposed)),
                        "cublasLtMatmulDescSetAttribute");
    }
    const auto make = [&](cublasLtMatrixLayoutOpaque_t& layout, cudaDataType_t of, std::uint64_t m,
                          std::uint64_t k) {
      if (!status.ok()) return;
      status = LtStatus(cublasLtMatrixLayoutInit(&layout, of, m, k, static_cast<std::int64_t>(m)),
                        "cublasLtMatrixLayoutInit");
    };
    make(weight, type, cols, rows);
    make(x, type, cols, count);
    make(out, TypeOf(shape.out), rows, count);
  }

  absl::Status status;
  cublasLtMatmulDescOpaque_t operation = {};
  cublasLtMatrixLayoutOpaque_t weight = {}, x = {}, out = {};
};

}  // namespace

absl::StatusOr<std::unique_ptr<LibraryGemm>> LibraryGemm::Create(Device& device, bool whole_sums) {
  std::unique_ptr<LibraryGemm> gemm(new LibraryGemm(whole_sums));
  absl::Status status = LtStatus(cublasLtCreate(&gemm->handle_), "cublasLtCreate");
  if (!status.ok()) return status;
  absl::StatusOr<DeviceBuffer> workspace = device.Allocate(kWorkspaceBytes);
  if (!workspace.ok()) return workspace.status();
  gemm->workspace_ = *std::move(workspace);
  return gemm;
}

LibraryGemm::~LibraryGemm() {
  if (handle_ != nullptr) cublasLtDestroy(handle_);
}

absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> LibraryGemm::Find(const GemmShape& shape,
                                                                    std::int64_t n,
                                                                    int count) const {
  Description product(shape, n);
  if (!product.status.ok()) return product.status;
  cublasLtMatmulPreference_t preference = nullptr;
  absl::Status status =
      LtStatus(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  if (!status.ok()) return status;
  const std::uint64_t workspace = workspace_.num_bytes();
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                       &workspace, sizeof(workspace));
  // Split sums are added in f32, whatever the output.
  const std::uint32_t reductions =
      whole_sums_ ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                       &reductions, sizeof(reductions));
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(count));
  int found = 0;
  const cublasStatus_t searched = cublasLtMatmulAlgoGetHeuristic(
      handle_, &product.operation, &product.weight, &product.x, &product.out, &product.out,
      preference, count, results.data(), &found);
  cublasLtMatmulPreferenceDestroy(preference);
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < found; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
  }
  if (searched != CUBLAS_STATUS_SUCCESS || algorithms.empty()) {
    return absl::UnimplementedError(absl::StrCat(
        "mat_mul: cuBLASLt has no algorithm for ", n, " rows of ", std::string(Name(shape.dtype)),
        " input, a weight of [", shape.rows, ", ", shape.cols, "] and ",
        std::string(Name(shape.out)), " output: ", cublasLtGetStatusString(searched)));
  }
  return algorithms;
}

bool LibraryGemm::Serves(const GemmShape& shape, std::int64_t n,
                         const cublasLtMatmulAlgo_t& algorithm) const {
  Description product(shape, n);
  cublasLtMatmulHeuristicResult_t result = {};
  return product.status.ok() &&
         cublasLtMatmulAlgoCheck(handle_, &product.operation, &product.weight, &product.x,
                                 &product.out, &product.out, &algorithm,
                                 &result) == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= workspace_.num_bytes();
}

absl::Status LibraryGemm::Run(const GemmShape& shape, const GemmCall& call,
                              const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream) {
  if (call.bias != nullptr) {
    const TensorView out = TensorView::Of(call.out, shape.out, call.n, shape.rows);
    absl::Status status = CudaStatus(LaunchFillRows(call.bias, out, stream), "filling in bias");
    if (!status.ok()) return status;
  }
  Description product(shape, call.n);
  if (!product.status.ok()) return product.status;
  const float one = 1, keeps = call.bias != nullptr ? 1 : 0;
  return LtStatus(
      cublasLtMatmul(handle_, &product.operation, &one, call.weight, &product.weight, call.x,
                     &product.x, &keeps, call.out, &product.out, call.out, &product.out, &algorithm,
                     workspace_.get(), workspace_.num_bytes(), stream),
      "cublasLtMatmul");
}

}  // namespace thresher
