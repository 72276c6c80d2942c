#include "kernels/cuda/gemm/choice.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

constexpr std::string_view kLibrary = "library", kSkinny = "skinny", kSum = "sum";
constexpr std::size_t kAlgorithmWords = sizeof(cublasLtMatmulAlgo_t) / sizeof(std::uint64_t);

// FNV-1a, against damage, not against malice.
std::uint64_t SumOf(std::string_view text) {
  std::uint64_t sum = 0xcbf29ce484222325;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return sum;
}

std::string TextOf(const GemmChoice& choice) {
  if (const auto* config = std::get_if<SkinnyConfig>(&choice)) {
    return absl::StrCat(std::string(kSkinny), " ", config->groups, " ", config->splits, " ",
                        config->blocks_of_processor);
  }
  std::uint64_t words[kAlgorithmWords];
  std::memcpy(words, &std::get<cublasLtMatmulAlgo_t>(choice), sizeof(words));
  std::string text(kLibrary);
  for (const std::uint64_t word : words) absl::StrAppend(&text, " ", absl::Hex(word));
  return text;
}

std::optional<DType> DTypeNamed(std::string_view name) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    if (name == Name(dtype)) return dtype;
  }
  return std::nullopt;
}

bool ReadChoice(std::istream& line, GemmChoice& choice) {
  std::string kind;
  line >> kind;
  if (kind == kSkinny) {
    SkinnyConfig config;
    line >> config.groups >> config.splits >> config.blocks_of_processor;
    choice = config;
  } else if (kind == kLibrary) {
    std::uint64_t words[kAlgorithmWords];
    line >> std::hex;
    for (std::uint64_t& word : words) line >> word;
    cublasLtMatmulAlgo_t algorithm;
    std::memcpy(&algorithm, words, sizeof(words));
    choice = algorithm;
  } else {
    return false;
  }
  return !line.fail();
}

bool ReadLine(const std::string& text, GemmChoices& choices) {
  std::istringstream line(text);
  std::string dtype, out;
  GemmShape shape;
  std::int64_t rows_of_bucket = 0;
  line >> dtype >> shape.rows >> shape.cols >> out >> rows_of_bucket;
  const std::optional<DType> of_weight = DTypeNamed(dtype), of_out = DTypeNamed(out);
  if (line.fail() || !of_weight.has_value() || !of_out.has_value() || rows_of_bucket < 1) {
    return false;
  }
  shape.dtype = *of_weight;
  shape.out = *of_out;
  GemmChoice choice;
  if (!ReadChoice(line, choice)) return false;
  choices[{shape, GemmBucketOf(rows_of_bucket)}] = choice;
  return true;
}

}  // namespace

std::string WriteGemmChoices(std::string_view machine, const GemmChoices& choices) {
  std::string text = absl::StrCat(std::string(machine), "\n");
  for (const auto& [product, choice] : choices) {
    const auto& [shape, bucket] = product;
    absl::StrAppend(&text, std::string(Name(shape.dtype)), " ", shape.rows, " ", shape.cols, " ",
                    std::string(Name(shape.out)), " ", RowsOfGemmBucket(bucket), " ",
                    TextOf(choice), "\n");
  }
  absl::StrAppend(&text, std::string(kSum), " ", SumOf(text), "\n");
  return text;
}

absl::StatusOr<GemmChoices> ReadGemmChoices(std::string_view machine, std::string_view text) {
  const std::size_t first_end = text.find('\n');
  if (first_end == std::string_view::npos) return absl::DataLossError("no first line");
  const std::string_view written_on = text.substr(0, first_end);
  if (written_on != machine) {
    return absl::FailedPreconditionError(absl::StrCat("it is of \"", std::string(written_on),
                                                      "\", not of \"", std::string(machine), "\""));
  }
  const std::size_t sum_at = text.rfind(kSum);
  if (sum_at == std::string_view::npos ||
      text.substr(sum_at) !=
          absl::StrCat(std::string(kSum), " ", SumOf(text.substr(0, sum_at)), "\n")) {
    return absl::DataLossError("its sum is wrong");
  }
  std::istringstream lines{std::string(text.substr(first_end + 1, sum_at - first_end - 1))};
  GemmChoices choices;
  std::string line;
  while (std::getline(lines, line)) {
    if (!ReadLine(line, choices)) return absl::DataLossError(absl::StrCat("bad line: ", line));
  }
  return choices;
}

absl::StatusOr<GemmChoices> LoadGemmChoices(std::string_view machine, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, " is not there"));
  std::stringstream text;
  text << file.rdbuf();
  return ReadGemmChoices(machine, text.str());
}

absl::Status SaveGemmChoices(std::string_view machine, const GemmChoices& choices,
                             const std::string& path) {
  std::error_code error;
  const std::filesystem::path target(path);
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path(), error);
  if (error) return absl::UnavailableError(absl::StrCat("making ", path, ": ", error.message()));
  // Ranks and servers may write at the same time.
  const std::string aside = absl::StrCat(path, ".", getpid(), ".new");
  {
    std::ofstream file(aside, std::ios::binary);
    file << WriteGemmChoices(machine, choices);
    file.close();
    if (file.fail()) {
      std::filesystem::remove(aside, error);
      return absl::UnavailableError(absl::StrCat("writing ", aside, " failed"));
    }
  }
  std::filesystem::rename(aside, target, error);
  if (error) return absl::UnavailableError(absl::StrCat("renaming ", aside, ": ", error.message()));
  return absl::OkStatus();
}

}  // namespace thresher
