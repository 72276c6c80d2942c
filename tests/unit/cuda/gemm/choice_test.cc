// The file that keeps which products were fastest. Needs no GPU.
#include "kernels/cuda/gemm/choice.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "tests/support/temp_folder.h"

namespace thresher {
namespace {

constexpr char kMachine[] = "products on a GPU, driver 1";

GemmChoices SomeChoices() {
  GemmChoices choices;
  cublasLtMatmulAlgo_t algorithm;
  for (int i = 0; i < 8; ++i) algorithm.data[i] = 0x9e3779b97f4a7c15 * static_cast<unsigned>(i);
  choices[{{DType::kBF16, 6144, 4096, DType::kBF16}, GemmBucketOf(8)}] = algorithm;
  choices[{{DType::kBF16, 6144, 4096, DType::kF32}, GemmBucketOf(1)}] = SkinnyConfig{2, 4, 3};
  choices[{{DType::kF32, 1, 2, DType::kF32}, GemmBucketOf(8192)}] = algorithm;
  return choices;
}

bool Same(const GemmChoices& a, const GemmChoices& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    if (x.first != y.first || x.second.index() != y.second.index()) return false;
    const auto* config = std::get_if<SkinnyConfig>(&x.second);
    if (config != nullptr) return *config == std::get<SkinnyConfig>(y.second);
    return std::memcmp(&std::get<cublasLtMatmulAlgo_t>(x.second),
                       &std::get<cublasLtMatmulAlgo_t>(y.second),
                       sizeof(cublasLtMatmulAlgo_t)) == 0;
  });
}

TEST(GemmChoiceFile, GivesBackWhatItGot) {
  const std::string text = WriteGemmChoices(kMachine, SomeChoices());
  const auto read = ReadGemmChoices(kMachine, text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->size(), 3u);
  EXPECT_TRUE(Same(*read, SomeChoices()));
  EXPECT_TRUE(ReadGemmChoices(kMachine, WriteGemmChoices(kMachine, {}))->empty());
}

TEST(GemmChoiceFile, RefusesAnotherMachines) {
  const auto read =
      ReadGemmChoices("products on a GPU, driver 2", WriteGemmChoices(kMachine, SomeChoices()));
  EXPECT_EQ(read.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(read.status().message().find("driver 1"), std::string::npos);
}

TEST(GemmChoiceFile, RefusesDamage) {
  const std::string text = WriteGemmChoices(kMachine, SomeChoices());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] ^= 1;
    EXPECT_FALSE(ReadGemmChoices(kMachine, damaged).ok()) << "byte " << i;
    EXPECT_FALSE(ReadGemmChoices(kMachine, text.substr(0, i)).ok()) << "first " << i;
  }
}

TEST(GemmChoiceFile, IsReplacedAsAWhole) {
  const testing::TempFolder folder;
  const std::string path = folder.path() + "/made/on/the/way/products.txt";
  EXPECT_EQ(LoadGemmChoices(kMachine, path).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(SaveGemmChoices(kMachine, {}, path).ok());
  ASSERT_TRUE(SaveGemmChoices(kMachine, SomeChoices(), path).ok());
  EXPECT_TRUE(Same(LoadGemmChoices(kMachine, path).value(), SomeChoices()));
  const auto beside = std::filesystem::directory_iterator(folder.path() + "/made/on/the/way");
  EXPECT_EQ(std::distance(begin(beside), end(beside)), 1);
  // A folder is in the file's place.
  EXPECT_EQ(SaveGemmChoices(kMachine, SomeChoices(), folder.path() + "/made").code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace thresher
