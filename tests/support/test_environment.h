// What the environment says to tests; the product reads none of it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "kernels/backend.h"

namespace thresher::testing {

// THRESHER_TEST_MAX_ISA caps the instruction sets of a test's backend.
inline CpuIsa TestMaxIsa() {
  const char* isa = std::getenv("THRESHER_TEST_MAX_ISA");
  if (isa != nullptr && std::string(isa) == "avx2") return CpuIsa::kAvx2;
  if (isa != nullptr && std::string(isa) == "avx512") return CpuIsa::kAvx512;
  return CpuIsa::kAvx512Bf16;
}

// SmolLM2-135M-Instruct.Q4_1.gguf: THRESHER_TEST_MODEL, or where deploy/scripts/fetch_model.sh puts
// it. Absent if there is no such file.
inline std::optional<std::string> RealModelPath() {
  const char* path = std::getenv("THRESHER_TEST_MODEL");
  const char* home = std::getenv("HOME");
  std::string found = path != nullptr ? path : "";
  if (found.empty() && home != nullptr) {
    found = std::string(home) + "/.cache/thresher/SmolLM2-135M-Instruct.Q4_1.gguf";
  }
  if (found.empty() || !std::filesystem::is_regular_file(found)) return std::nullopt;
  return found;
}

// A test that needs the real model must fail without it, not skip.
inline bool RealModelIsRequired() {
  const char* required = std::getenv("THRESHER_REQUIRE_MODEL");
  return required != nullptr && std::string(required) == "1";
}

}  // namespace thresher::testing
