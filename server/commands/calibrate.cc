// `thresher calibrate`: makes a model's threshold table from text.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "engine/attention/calibrate/calibration.h"
#include "engine/attention/published_thresholds.h"
#include "engine/attention/threshold_file.h"
#include "engine/model/mapped_file.h"
#include "engine/model/scaled_model_files.h"
#include "server/commands/command_line.h"
#include "server/commands/commands.h"
#include "server/commands/progress_line.h"
#include "server/commands/signals.h"
#include "server/config/defaults.h"

namespace thresher {
namespace {

constexpr char kUsage[] =
    "usage: thresher calibrate --model PATH --text FILE... --out FILE [flags]\n"
    "       thresher calibrate --model PATH --import-thresholds FILE --out FILE [flags]\n"
    "Makes the threshold table that `thresher serve --threshold-table` and top_theta need. An\n"
    "interrupted run goes on where it ended if the same command is given again.\n";

absl::Status CheckFlags(const v1::CalibrateConfig& flags) {
  absl::Status on_cpu = CheckRunsOnCpu(flags.device(), "observing the scores of a calibration");
  if (!on_cpu.ok()) return on_cpu;
  const auto missing = [](const char* flag) {
    return absl::InvalidArgumentError(absl::StrCat("--", flag, " is missing"));
  };
  if (flags.model().empty()) return missing("model");
  const bool imports = !flags.import_thresholds().empty();
  if (flags.text().empty() && !imports) return missing("text");
  if (!flags.text().empty() && imports) {
    return absl::InvalidArgumentError("give either --text or --import-thresholds");
  }
  if (!flags.import_denominators().empty() && !imports) return missing("import-thresholds");
  if (flags.out().empty()) return missing("out");
  if (flags.import_placement() != "pre" && flags.import_placement() != "post") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--import-placement is '", flags.import_placement(), "'; it must be pre or post"));
  }
  const auto check = [](const char* flag, std::int64_t value, std::int64_t low,
                        std::int64_t high) -> absl::Status {
    if (value >= low && value <= high) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag, " is ", value, ", expected ", low, " to ", high));
  };
  absl::Status status = check("windows", flags.windows(), 0, 1 << 20);
  if (status.ok()) status = check("rows-per-length", flags.rows_per_length(), 1, 1 << 20);
  if (status.ok()) status = check("threads", flags.threads(), 0, 4096);
  if (status.ok() && flags.kv_cache_dtype() != "bf16" && flags.kv_cache_dtype() != "fp32") {
    status = absl::InvalidArgumentError(
        absl::StrCat("--kv-cache-dtype is '", flags.kv_cache_dtype(), "', expected bf16 or fp32"));
  }
  return status;
}

absl::StatusOr<int> WindowLength(const v1::CalibrateConfig& flags, const ModelConfig& config) {
  if (flags.max_length() == 0) return config.max_position;
  if (flags.max_length() >= 64 && flags.max_length() <= config.max_position) {
    return flags.max_length();
  }
  return absl::InvalidArgumentError(absl::StrCat("--max-length is ", flags.max_length(),
                                                 ", expected 64 to ", config.max_position,
                                                 ", the model's context"));
}

void PrintReport(const CalibrationReport& report, const std::string& path, absl::Duration took) {
  const ThresholdContents& table = report.table;
  std::cout << "length   rows observed\n";
  int thin = 0;
  for (std::size_t i = 0; i < table.n.size(); ++i) {
    const std::int64_t rows = table.samples[i];
    const char* mark = rows == 0 ? "   extrapolated" : rows < kThinSamples ? "   thin" : "";
    std::cout << absl::StrFormat("%6d %10d%s\n", table.n[i], rows, mark);
    if (rows < kThinSamples) ++thin;
  }
  if (thin > 0) {
    std::cerr << "thresher: warning: " << thin << " lengths have fewer than " << kThinSamples
              << " rows, so k will be met less closely there; give more text or --windows\n";
  }
  if (report.outside_share > 1e-6) {
    std::cerr << absl::StrFormat("thresher: warning: %.2g of the scores are beyond +-64\n",
                                 report.outside_share);
  }
  std::error_code ignored;
  const auto bytes = std::filesystem::file_size(path, ignored);
  std::cout << absl::StrFormat(
      "%s: %d layers, %d heads, k %d to %d, %.2f MB; %d windows, %d tokens, %s\n", path,
      table.num_layers, table.num_heads, table.k.front(), table.k.back(),
      static_cast<double>(bytes) / 1e6, report.num_windows, report.num_tokens, ShortDuration(took));
}

DType CacheType(const v1::CalibrateConfig& flags) {
  return flags.kv_cache_dtype() == "fp32" ? DType::kF32 : DType::kBF16;
}

absl::StatusOr<std::unique_ptr<ModelFiles>> OpenModel(const v1::CalibrateConfig& flags) {
  absl::StatusOr<std::unique_ptr<ModelFiles>> files = ModelFiles::Open(flags.model());
  if (!files.ok()) return files;
  return StretchContext(*std::move(files), flags.context_factor());
}

absl::Status Import(const v1::CalibrateConfig& flags) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 30;
  const absl::StatusOr<std::unique_ptr<ModelFiles>> files = OpenModel(flags);
  if (!files.ok()) return files.status();
  const absl::StatusOr<std::string> thresholds = ReadTextFile(flags.import_thresholds(), kMaxBytes);
  if (!thresholds.ok()) return thresholds.status();
  absl::StatusOr<std::string> denominators = std::string();
  if (!flags.import_denominators().empty()) {
    denominators = ReadTextFile(flags.import_denominators(), kMaxBytes);
    if (!denominators.ok()) return denominators.status();
  }
  const ModelConfig& config = (*files)->config();
  absl::StatusOr<ModelFingerprint> print = FingerprintOf(**files, config, CacheType(flags));
  if (!print.ok()) return print.status();
  const absl::StatusOr<ThresholdContents> table = ImportPublishedThresholds(
      *thresholds, *denominators,
      flags.import_placement() == "post" ? ThresholdPlacement::kPost : ThresholdPlacement::kPre,
      config, *std::move(print));
  if (!table.ok()) return table.status();
  return WriteThresholdFile(*table, flags.out());
}

absl::Status Run(const v1::CalibrateConfig& flags, const Signals& signals) {
  const absl::Time start = absl::Now();
  // All that can be wrong with the arguments shows before any work.
  if (absl::Status status = CheckWritable(flags.out()); !status.ok()) return status;
  if (!flags.import_thresholds().empty()) return Import(flags);
  const std::vector<std::string> paths(flags.text().begin(), flags.text().end());
  const absl::StatusOr<std::vector<TextFile>> texts = ReadTextFiles(paths);
  if (!texts.ok()) return texts.status();
  const absl::StatusOr<std::unique_ptr<ModelFiles>> files = OpenModel(flags);
  if (!files.ok()) return files.status();
  const absl::StatusOr<int> length = WindowLength(flags, (*files)->config());
  if (!length.ok()) return length.status();
  const absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = (*files)->LoadTokenizer();
  if (!tokenizer.ok()) return tokenizer.status();
  const auto seed = static_cast<std::uint64_t>(flags.seed());
  const absl::StatusOr<std::vector<TextWindow>> windows = CutWindows(
      **tokenizer, *texts, {.length = *length, .max_windows = flags.windows(), .seed = seed});
  if (!windows.ok()) return windows.status();
  absl::StatusOr<CalibrationReport> report = absl::UnknownError("");
  {
    ProgressLine line("calibrate", !flags.quiet());
    report = Calibrate(**files, *windows,
                       {.output = flags.out(),
                        .rows_per_bucket = flags.rows_per_length(),
                        .seed = seed,
                        .kv_dtype = CacheType(flags),
                        .backend = {.num_threads = flags.threads()}},
                       [&](const CalibrationProgress& progress) {
                         const std::string where = absl::StrCat(
                             "window ", std::min(progress.window + 1, progress.num_windows), " of ",
                             progress.num_windows, signals.asked() ? ", stopping after it" : "");
                         line.Show(progress.fraction, progress.resumed_fraction, where);
                         return !signals.asked();
                       });
  }
  if (!report.ok()) return report.status();
  PrintReport(*report, flags.out(), absl::Now() - start);
  return absl::OkStatus();
}

}  // namespace

int RunCalibrate(const std::vector<std::string>& arguments) {
  v1::CalibrateConfig flags = DefaultCalibrateConfig();
  if (std::optional<int> end = ReadCommandLine(kUsage, arguments, flags)) return *end;
  if (absl::Status status = CheckFlags(flags); !status.ok()) {
    Fail(status);
    return 2;
  }
  Signals signals;
  signals.SetDrains();
  const absl::Status status = Run(flags, signals);
  return status.ok() ? 0 : Fail(status);
}

}  // namespace thresher
