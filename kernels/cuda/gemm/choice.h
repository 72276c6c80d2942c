// Who computes a product, and the file that keeps such choices from one start to the next.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/gemm/config.h"
#include "kernels/cuda/gemm/product.h"

namespace thresher {

// cuBLASLt with an algorithm, or our kernel for few rows of input with a configuration.
using GemmChoice = std::variant<cublasLtMatmulAlgo_t, SkinnyConfig>;

// By shape and bucket of rows.
using GemmChoices = std::map<std::pair<GemmShape, int>, GemmChoice>;

// The text of a file: `machine`, the choices, one a line, and a sum over all of it. `machine` is
// one line that names all that the choices depend on.
std::string WriteGemmChoices(std::string_view machine, const GemmChoices& choices);

// FailedPrecondition if the text was written on another machine, DataLoss if it is damaged.
absl::StatusOr<GemmChoices> ReadGemmChoices(std::string_view machine, std::string_view text);

// The file's choices. NotFound if there is none; otherwise as above.
absl::StatusOr<GemmChoices> LoadGemmChoices(std::string_view machine, const std::string& path);

// Replaces the file at once, so that a reader sees the old one or the new one. Makes its folder.
// Unavailable with the system's reason.
absl::Status SaveGemmChoices(std::string_view machine, const GemmChoices& choices,
                             const std::string& path);

}  // namespace thresher
