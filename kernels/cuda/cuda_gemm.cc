#include "kernels/cuda/cuda_gemm.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/gemm/search.h"
#include "kernels/device/shape_check.h"

namespace thresher {
namespace {

constexpr const char* kOp = "mat_mul";
// The rows of input whose algorithm serves all, where one must.
constexpr std::int64_t kInvariantRows = 128;
// Output in f32 is for logits, of few rows; larger products of f32 output are not searched.
constexpr std::int64_t kMaxSearchedF32Rows = 256;
constexpr std::int64_t kMaxSearchedOutBytes = std::int64_t{1} << 30;
// Counts up whenever our kernels or their configurations change their speed, so that files written
// before are not believed.
constexpr int kKernelGeneration = 1;

bool IsWorthASearch(const GemmShape& shape, std::int64_t n) {
  return shape.dtype == DType::kBF16 && (shape.out == DType::kBF16 || n <= kMaxSearchedF32Rows) &&
         n * shape.rows * SizeOf(shape.out) <= kMaxSearchedOutBytes;
}

}  // namespace

struct CudaGemm::Tally {
  int loaded = 0, searched = 0, guessed = 0;
  std::string file_trouble, search_trouble;
};

absl::StatusOr<std::unique_ptr<CudaGemm>> CudaGemm::Create(CudaDevice& device,
                                                           CudaGemmOptions options) {
  absl::StatusOr<std::unique_ptr<LibraryGemm>> library =
      LibraryGemm::Create(device, options.batch_invariant);
  if (!library.ok()) return library.status();
  const absl::StatusOr<SkinnyGemm> skinny = SkinnyGemm::Create(device);
  if (!skinny.ok()) return skinny.status();
  return std::unique_ptr<CudaGemm>(
      new CudaGemm(device, std::move(options), *std::move(library), *skinny));
}

void CudaGemm::Announce(const CudaWeight& weight) {
  for (const DType out : {DType::kF32, weight.dtype()}) {
    announced_.insert({weight.dtype(), weight.rows(), weight.cols(), out});
  }
}

std::string CudaGemm::Machine() const {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  return absl::StrCat("products of generation ", kKernelGeneration, " on ", device_.name(), ", ",
                      device_.num_multiprocessors(), " multiprocessors, driver ", driver,
                      ", cuBLASLt ", cublasLtGetVersion(), ", workspace ",
                      library_->workspace_bytes());
}

absl::Status CudaGemm::Reserve(std::int64_t max_rows) {
  const auto start = std::chrono::steady_clock::now();
  Tally tally;
  if (!options_.batch_invariant && !options_.choices_path.empty()) {
    const absl::StatusOr<GemmChoices> file = LoadGemmChoices(Machine(), options_.choices_path);
    if (file.ok()) {
      TakeFile(*file, tally);
    } else {
      tally.file_trouble = std::string(file.status().message());
    }
  }
  if (!options_.batch_invariant) {
    if (absl::Status status = Search(max_rows, tally); !status.ok()) return status;
  }
  const int last = GemmBucketOf(std::max<std::int64_t>(1, max_rows));
  for (const GemmShape& shape : announced_) {
    for (int bucket = 0; bucket <= last; ++bucket) {
      const std::size_t before = choices_.size();
      const absl::StatusOr<const GemmChoice*> found = ChoiceOf(shape, RowsOfGemmBucket(bucket));
      if (!found.ok()) return found.status();
      tally.guessed += static_cast<int>(choices_.size() - before);
    }
  }
  if (tally.searched > 0 && !options_.choices_path.empty()) {
    const absl::Status saved = SaveGemmChoices(Machine(), choices_, options_.choices_path);
    if (!saved.ok()) tally.file_trouble = std::string(saved.message());
  }
  if (options_.report != nullptr) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    options_.report(
        absl::StrCat("products_loaded=", tally.loaded, " products_searched=", tally.searched,
                     " products_guessed=", tally.guessed, " seconds=", took.count(), " file=\"",
                     options_.choices_path, "\" file_trouble=\"", tally.file_trouble,
                     "\" search_trouble=\"", tally.search_trouble, "\""));
  }
  return absl::OkStatus();
}

// What the file says is believed only if the library, or our kernel, would still do it.
void CudaGemm::TakeFile(const GemmChoices& file, Tally& tally) {
  for (const auto& [product, choice] : file) {
    const auto& [shape, bucket] = product;
    const std::int64_t n = RowsOfGemmBucket(bucket);
    bool serves = false;
    if (const auto* config = std::get_if<SkinnyConfig>(&choice)) {
      const std::vector<SkinnyConfig> candidates = skinny_.Candidates(shape, n);
      serves = std::find(candidates.begin(), candidates.end(), *config) != candidates.end();
    } else {
      serves = library_->Serves(shape, n, std::get<cublasLtMatmulAlgo_t>(choice));
    }
    if (!serves) continue;
    choices_[product] = choice;
    if (announced_.contains(shape)) ++tally.loaded;
  }
}

absl::Status CudaGemm::Search(std::int64_t max_rows, Tally& tally) {
  std::vector<std::pair<GemmShape, int>> missing;
  std::int64_t weight_bytes = 0, x_bytes = 0, out_bytes = 0;
  const int last = GemmBucketOf(std::max<std::int64_t>(1, max_rows));
  for (int bucket = 0; bucket <= last; ++bucket) {
    const std::int64_t n = RowsOfGemmBucket(bucket);
    for (const GemmShape& shape : announced_) {
      if (!IsWorthASearch(shape, n) || choices_.contains({shape, bucket})) continue;
      missing.push_back({shape, bucket});
      weight_bytes = std::max(weight_bytes, shape.rows * shape.cols * SizeOf(shape.dtype));
      x_bytes = std::max(x_bytes, n * shape.cols * SizeOf(shape.dtype));
      out_bytes = std::max(out_bytes, n * shape.rows * SizeOf(shape.out));
    }
  }
  if (missing.empty() || options_.search_seconds <= 0) return absl::OkStatus();
  const absl::StatusOr<std::unique_ptr<GemmSearch>> search =
      GemmSearch::Create(device_, *library_, skinny_, weight_bytes, x_bytes, out_bytes);
  if (absl::IsResourceExhausted(search.status())) {
    tally.search_trouble = std::string(search.status().message());
    return absl::OkStatus();
  }
  if (!search.ok()) return search.status();
  const auto start = std::chrono::steady_clock::now();
  for (const auto& [shape, bucket] : missing) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (spent.count() > options_.search_seconds) {
      tally.search_trouble = absl::StrCat("out of time after ", options_.search_seconds, " s");
      break;
    }
    const absl::StatusOr<GemmChoice> fastest = (*search)->Fastest(shape, RowsOfGemmBucket(bucket));
    if (!fastest.ok()) return fastest.status();
    choices_[{shape, bucket}] = *fastest;
    ++tally.searched;
  }
  return absl::OkStatus();
}

absl::StatusOr<const GemmChoice*> CudaGemm::ChoiceOf(const GemmShape& shape, std::int64_t n) {
  const int bucket = options_.batch_invariant ? 0 : GemmBucketOf(n);
  const auto known = choices_.find({shape, bucket});
  if (known != choices_.end()) return &known->second;
  const absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> found = library_->Find(
      shape, options_.batch_invariant ? kInvariantRows : RowsOfGemmBucket(bucket), 1);
  if (!found.ok()) return found.status();
  return &(choices_[{shape, bucket}] = found->front());
}

absl::Status CudaGemm::MatMul(const TensorView& x, const CudaWeight& weight, const TensorView& bias,
                              const TensorView& out, cudaStream_t stream) {
  if (weight.use() != CudaWeight::Use::kProducts) {
    return absl::InvalidArgumentError("mat_mul: the weight is a table to look up");
  }
  const GemmShape shape = {weight.dtype(), weight.rows(), weight.cols(), out.dtype};
  absl::Status status = CheckTensor(kOp, "x", x, {shape.dtype}, {kAnySize, shape.cols});
  if (status.ok()) {
    status = CheckTensor(kOp, "out", out, {DType::kF32, shape.dtype}, {x.shape[0], shape.rows});
  }
  if (status.ok() && bias.data != nullptr) {
    status = CheckTensor(kOp, "bias", bias, {DType::kF32}, {shape.rows});
  }
  const std::int64_t n = x.shape[0];
  if (!status.ok() || n == 0) return status;
  for (const TensorView* tensor : {&x, &out}) {
    if (reinterpret_cast<std::uintptr_t>(tensor->data) % 16 != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("mat_mul: ", tensor == &x ? "x" : "out", " is not aligned to 16 bytes"));
    }
  }
  const absl::StatusOr<const GemmChoice*> choice = ChoiceOf(shape, n);
  if (!choice.ok()) return choice.status();
  const GemmCall call = {x.data, weight.memory(), bias.as<const float>(), out.data, n};
  if (const auto* config = std::get_if<SkinnyConfig>(*choice)) {
    return skinny_.Run(shape, call, *config, stream);
  }
  return library_->Run(shape, call, std::get<cublasLtMatmulAlgo_t>(**choice), stream);
}

}  // namespace thresher
