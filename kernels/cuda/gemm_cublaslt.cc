#include "kernels/cuda/gemm_cublaslt.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/row_kernels.h"
#include "kernels/device/shape_check.h"

namespace thresher {
namespace {

constexpr const char* kOp = "mat_mul";
// What NVIDIA advises for Hopper.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
// The rows of input whose algorithm serves all, where one must.
constexpr std::int64_t kInvariantRows = 128;

absl::Status LtStatus(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(call, ": ", cublasLtGetStatusString(status)));
}

cudaDataType_t TypeOf(DType dtype) { return dtype == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF; }

}  // namespace

// cuBLASLt counts columns first: outᵀ [rows, n] = weight [cols, rows]ᵀ · xᵀ [cols, n]. Descriptions
// lie on the stack, so a product allocates nothing.
struct CublasLtGemm::Product {
  Product(const Shape& shape, std::int64_t n) {
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

absl::StatusOr<std::unique_ptr<CublasLtGemm>> CublasLtGemm::Create(CudaDevice& device,
                                                                   bool batch_invariant) {
  std::unique_ptr<CublasLtGemm> gemm(new CublasLtGemm(device, batch_invariant));
  absl::Status status = LtStatus(cublasLtCreate(&gemm->handle_), "cublasLtCreate");
  if (!status.ok()) return status;
  absl::StatusOr<DeviceBuffer> workspace = device.Allocate(kWorkspaceBytes);
  if (!workspace.ok()) return workspace.status();
  gemm->workspace_ = *std::move(workspace);
  return gemm;
}

CublasLtGemm::~CublasLtGemm() {
  if (handle_ != nullptr) cublasLtDestroy(handle_);
}

// Buckets double, with three steps in between: 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, …
int CublasLtGemm::BucketOf(std::int64_t n) {
  if (n <= 4) return static_cast<int>(n) - 1;
  const int log = std::bit_width(static_cast<std::uint64_t>(n - 1)) - 3;  // n − 1 in [4, 8) << log
  const std::int64_t quarter = (n - 1) >> log;                            // 4 to 7
  return 4 * log + static_cast<int>(quarter);
}

std::int64_t CublasLtGemm::RowsOfBucket(int bucket) {
  if (bucket < 4) return bucket + 1;
  return (std::int64_t{bucket % 4} + 5) << (bucket / 4 - 1);
}

void CublasLtGemm::Announce(const CudaWeight& weight) {
  for (const DType out : {DType::kF32, weight.dtype()}) {
    algorithms_[{weight.dtype(), weight.rows(), weight.cols(), out}];
  }
}

absl::Status CublasLtGemm::Reserve(std::int64_t max_rows) {
  for (const auto& [shape, unused] : algorithms_) {
    const int last = BucketOf(std::max<std::int64_t>(1, max_rows));
    for (int bucket = 0; bucket <= last; ++bucket) {
      absl::StatusOr<const cublasLtMatmulAlgo_t*> found = AlgorithmFor(shape, RowsOfBucket(bucket));
      if (!found.ok()) return found.status();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<cublasLtMatmulAlgo_t> CublasLtGemm::Find(const Shape& shape, std::int64_t n) const {
  Product product(shape, n);
  if (!product.status.ok()) return product.status;
  cublasLtMatmulPreference_t preference = nullptr;
  absl::Status status =
      LtStatus(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  if (!status.ok()) return status;
  const std::uint64_t workspace = workspace_.num_bytes();
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                       &workspace, sizeof(workspace));
  if (batch_invariant_) {
    const std::uint32_t none = CUBLASLT_REDUCTION_SCHEME_NONE;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                         &none, sizeof(none));
  }
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  const cublasStatus_t searched =
      cublasLtMatmulAlgoGetHeuristic(handle_, &product.operation, &product.weight, &product.x,
                                     &product.out, &product.out, preference, 1, &result, &found);
  cublasLtMatmulPreferenceDestroy(preference);
  if (searched != CUBLAS_STATUS_SUCCESS || found == 0) {
    return absl::UnimplementedError(absl::StrCat(
        kOp, ": cuBLASLt has no algorithm for ", n, " rows of ", std::string(Name(shape.dtype)),
        " input, a weight of [", shape.rows, ", ", shape.cols, "] and ",
        std::string(Name(shape.out)), " output: ", cublasLtGetStatusString(searched)));
  }
  return result.algo;
}

absl::StatusOr<const cublasLtMatmulAlgo_t*> CublasLtGemm::AlgorithmFor(const Shape& shape,
                                                                       std::int64_t n) {
  const int bucket = batch_invariant_ ? 0 : BucketOf(n);
  auto& table = algorithms_[shape];
  if (static_cast<int>(table.size()) <= bucket) table.resize(static_cast<std::size_t>(bucket) + 1);
  auto& known = table[static_cast<std::size_t>(bucket)];
  if (known == nullptr) {
    absl::StatusOr<cublasLtMatmulAlgo_t> found =
        Find(shape, batch_invariant_ ? kInvariantRows : RowsOfBucket(bucket));
    if (!found.ok()) return found.status();
    known = std::make_unique<cublasLtMatmulAlgo_t>(*found);
  }
  return known.get();
}

absl::Status CublasLtGemm::MatMul(const TensorView& x, const CudaWeight& weight,
                                  const TensorView& bias, const TensorView& out,
                                  cudaStream_t stream) {
  if (weight.use() != CudaWeight::Use::kProducts) {
    return absl::InvalidArgumentError("mat_mul: the weight is a table to look up");
  }
  const Shape shape = {weight.dtype(), weight.rows(), weight.cols(), out.dtype};
  absl::Status status = CheckTensor(kOp, "x", x, {shape.dtype}, {kAnySize, shape.cols});
  if (status.ok()) {
    status = CheckTensor(kOp, "out", out, {DType::kF32, shape.dtype}, {x.shape[0], shape.rows});
  }
  if (status.ok() && bias.data != nullptr) {
    status = CheckTensor(kOp, "bias", bias, {DType::kF32}, {shape.rows});
  }
  const std::int64_t n = x.shape[0];
  if (!status.ok() || n == 0) return status;
  if (bias.data != nullptr) {
    status = CudaStatus(LaunchFillRows(bias.as<float>(), out, stream), "filling in bias");
    if (!status.ok()) return status;
  }
  const absl::StatusOr<const cublasLtMatmulAlgo_t*> algorithm = AlgorithmFor(shape, n);
  if (!algorithm.ok()) return algorithm.status();
  Product product(shape, n);
  if (!product.status.ok()) return product.status;
  const float one = 1, keeps = bias.data != nullptr ? 1 : 0;
  return LtStatus(
      cublasLtMatmul(handle_, &product.operation, &one, weight.memory(), &product.weight, x.data,
                     &product.x, &keeps, out.data, &product.out, out.data, &product.out, *algorithm,
                     workspace_.get(), workspace_.num_bytes(), stream),
      "cublasLtMatmul");
}

}  // namespace thresher
