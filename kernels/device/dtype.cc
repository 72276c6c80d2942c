#include "kernels/device/dtype.h"

namespace thresher {
namespace {

struct FormatRow {
  std::string_view name;
  int elements;
  int bytes;
};

// In the order of WeightFormat. Sizes are GGUF's block structs.
constexpr FormatRow kFormats[] = {
    {"F32", 1, 4},      {"F16", 1, 2},      {"BF16", 1, 2},     {"Q8_0", 32, 34},
    {"Q4_0", 32, 18},   {"Q4_1", 32, 20},   {"Q5_0", 32, 22},   {"Q5_1", 32, 24},
    {"Q4_K", 256, 144}, {"Q5_K", 256, 176}, {"Q6_K", 256, 210},
};

}  // namespace

std::string_view Name(DType dtype) {
  constexpr std::string_view kNames[] = {"f32", "bf16", "f16", "i32"};
  return kNames[static_cast<int>(dtype)];
}

std::string_view Name(WeightFormat format) { return kFormats[static_cast<int>(format)].name; }
int BlockElements(WeightFormat format) { return kFormats[static_cast<int>(format)].elements; }
int BlockBytes(WeightFormat format) { return kFormats[static_cast<int>(format)].bytes; }

}  // namespace thresher
