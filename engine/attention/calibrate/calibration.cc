#include "engine/attention/calibrate/calibration.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <numeric>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/attention/calibrate/calibration_state.h"
#include "engine/attention/calibrate/file_lock.h"
#include "engine/attention/calibrate/length_grid.h"
#include "engine/attention/calibrate/observing_attention.h"
#include "engine/attention/calibrate/threshold_fit.h"
#include "engine/attention/content_hash.h"
#include "engine/attention/threshold_file.h"
#include "engine/attention/write_file.h"
#include "engine/model/causal_lm.h"

namespace thresher {
namespace {

constexpr int kShortestWindow = 64;

// Everything that decides the result's bits, but for the machine.
std::uint64_t HashInputs(const ModelFingerprint& print, std::span<const TextWindow> windows,
                         const CalibrationOptions& options) {
  ContentHash hash;
  for (const ModelFingerprint::Field& field : print.fields) {
    hash.Add(absl::StrCat(field.name, "=", field.value, ";"));
  }
  hash.Add(absl::StrCat(options.rows_per_bucket, ",", options.step_tokens, ",", options.seed, ",",
                        static_cast<int>(options.kv_dtype), ",", windows.size(), ";"));
  for (const TextWindow& window : windows) hash.Add(std::as_bytes(std::span(window.tokens)));
  return hash.value();
}

// Share of a window's work that its first `tokens` are: products grow with the tokens, attention
// with their square; at a few thousand tokens both take about as long.
double WorkShare(int tokens, int length) {
  const double x = static_cast<double>(tokens) / length;
  return (x + x * x) / 2;
}

class Calibrator final {
 public:
  Calibrator(std::span<const TextWindow> windows, const CalibrationOptions& options,
             const CalibrationObserver& observer)
      : windows_(windows),
        options_(options),
        observer_(observer),
        length_(static_cast<int>(windows[0].tokens.size())),
        look_windows_(std::max<std::int64_t>(1, static_cast<std::int64_t>(windows.size()) / 8)) {}

  absl::Status Load(const ModelFiles& files, Backend& backend) {
    backend.BindThread();
    absl::StatusOr<std::unique_ptr<Stream>> stream = backend.device().CreateStream();
    if (!stream.ok()) return stream.status();
    stream_ = *std::move(stream);
    step_ = std::min(options_.step_tokens, length_);
    group_ = std::move(CreateInProcessGroup(1)[0]);
    absl::StatusOr<std::unique_ptr<CausalLm>> model =
        LoadCausalLm(files, backend, *group_,
                     {.max_tokens = step_, .max_logit_rows = 1, .max_position = length_}, nullptr);
    if (!model.ok()) return model.status();
    model_ = *std::move(model);
    absl::StatusOr<std::unique_ptr<ObservingAttention>> attention =
        ObservingAttention::Create(*model_, backend, options_.kv_dtype, length_);
    if (!attention.ok()) return attention.status();
    attention_ = *std::move(attention);
    return absl::OkStatus();
  }

  absl::Status Run(CalibrationState& state) {
    buckets_ = BucketsOf(state.statistics.shape().lengths);
    resumed_ = static_cast<double>(state.next_window) / static_cast<double>(windows_.size());
    absl::Time written = absl::Now();
    Report(state, 0);
    while (state.next_window < static_cast<std::int64_t>(windows_.size())) {
      if (!stopped_) {
        if (absl::Status status = RunWindow(state); !status.ok()) return status;
        if (!stopped_ && absl::Now() - written < options_.checkpoint) continue;
      }
      if (absl::Status status = WriteCalibrationState(state, StatePath()); !status.ok()) {
        return status;
      }
      written = absl::Now();
      if (!stopped_) continue;
      return absl::CancelledError(
          absl::StrCat("stopped; the same command goes on from ", StatePath()));
    }
    return absl::OkStatus();
  }

 private:
  std::string StatePath() const { return options_.output + ".state"; }

  // A window has added to the statistics as it went, so it is run to its end even if the observer
  // wants to stop.
  void Report(const CalibrationState& state, double share) {
    if (!observer_) return;
    const auto count = static_cast<double>(windows_.size());
    const bool goes_on =
        observer_({.window = static_cast<int>(state.next_window),
                   .num_windows = static_cast<int>(windows_.size()),
                   .fraction = (static_cast<double>(state.next_window) + share) / count,
                   .resumed_fraction = resumed_});
    if (!goes_on) stopped_ = true;
  }

  // A bucket's histograms count in 32 bits.
  std::vector<std::int64_t> Limits(const ScoreStatistics& statistics) const {
    std::vector<std::int64_t> limits;
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      const std::int64_t most = std::numeric_limits<std::uint32_t>::max() / buckets_[b].longest;
      limits.push_back(
          std::min<std::int64_t>(options_.rows_per_bucket, most - statistics.samples[b]));
    }
    return limits;
  }

  absl::Status RunWindow(CalibrationState& state) {
    ScoreStatistics& statistics = state.statistics;
    const std::vector<TokenId>& tokens =
        windows_[static_cast<std::size_t>(state.next_window)].tokens;
    ContentHash seed;
    seed.Add(absl::StrCat(options_.seed, "/", state.next_window));
    const RowSample sample = SampleRows(buckets_, Limits(statistics), length_, seed.value());
    std::vector<std::int32_t> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), 0);
    for (int first = 0; first < length_; first += step_) {
      const int count = std::min(step_, length_ - first);
      const auto at = static_cast<std::size_t>(first), rows = static_cast<std::size_t>(count);
      absl::Status status =
          attention_->Plan(first, count, sample.rows, sample.buckets, statistics, *stream_);
      if (status.ok()) {
        status = model_->Forward({.token_ids = std::span(tokens).subspan(at, rows),
                                  .positions = std::span(positions).subspan(at, rows),
                                  .slot_mapping = attention_->slot_mapping()},
                                 *attention_, *stream_);
      }
      if (status.ok()) status = stream_->Synchronize();
      if (!status.ok()) return status;
      if (first + count < length_) Report(state, WorkShare(first + count, length_));
    }
    for (const std::int32_t bucket : sample.buckets) {
      ++statistics.samples[static_cast<std::size_t>(bucket)];
    }
    if (absl::Status status = ObserveValues(state); !status.ok()) return status;
    ++state.next_window;
    Report(state, 0);
    return absl::OkStatus();
  }

  // The first windows give the mean value; from the last of them on, norms are taken with it.
  absl::Status ObserveValues(CalibrationState& state) {
    ScoreStatistics& statistics = state.statistics;
    std::vector<ValueSums> no_moments(statistics.value_moments.size());
    std::vector<double> no_totals(statistics.value_totals.size());
    if (state.next_window < look_windows_) {
      statistics.value_tokens += length_;
      absl::Status status =
          attention_->ObserveValues(length_, {}, no_moments, statistics.value_totals, *stream_);
      if (!status.ok() || state.next_window + 1 < look_windows_) return status;
    }
    return attention_->ObserveValues(length_, statistics.MeanValues(), statistics.value_moments,
                                     no_totals, *stream_);
  }

  const std::span<const TextWindow> windows_;
  const CalibrationOptions& options_;
  const CalibrationObserver& observer_;
  const int length_;
  const std::int64_t look_windows_;
  int step_ = 0;
  double resumed_ = 0;
  bool stopped_ = false;
  std::vector<LengthBucket> buckets_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<TensorParallelGroup> group_;
  std::unique_ptr<CausalLm> model_;
  std::unique_ptr<ObservingAttention> attention_;
};

absl::Status CheckWindows(std::span<const TextWindow> windows, const ModelConfig& config) {
  if (windows.empty()) return absl::InvalidArgumentError("text: there is no window");
  const std::size_t length = windows[0].tokens.size();
  if (length < kShortestWindow || length > static_cast<std::size_t>(config.max_position)) {
    return absl::InvalidArgumentError(absl::StrCat("max_length: ", length, " is not in ",
                                                   kShortestWindow, " … ", config.max_position,
                                                   ", the model's context"));
  }
  for (const TextWindow& window : windows) {
    if (window.tokens.size() != length) {
      return absl::InvalidArgumentError("text: windows differ in length");
    }
  }
  return absl::OkStatus();
}

// Two calibrations of one output would write each other's state.
absl::StatusOr<std::unique_ptr<FileLock>> LockOutput(const std::string& output) {
  absl::StatusOr<std::unique_ptr<FileLock>> lock = FileLock::Take(output + ".lock");
  if (!absl::IsAborted(lock.status())) return lock;
  return absl::FailedPreconditionError(absl::StrCat(
      output, ": another calibration is writing it; wait for its end, or write elsewhere"));
}

// The state to start from: a file's, or a fresh one.
absl::StatusOr<CalibrationState> StateFor(const std::string& path, std::uint64_t inputs,
                                          const StatisticsShape& shape) {
  absl::StatusOr<CalibrationState> state = ReadCalibrationState(path, inputs, shape);
  if (absl::IsNotFound(state.status())) {
    return CalibrationState{.inputs = inputs, .statistics = ScoreStatistics(shape)};
  }
  if (state.ok()) return state;
  return absl::Status(state.status().code(),
                      absl::StrCat(std::string(state.status().message()),
                                   "; remove it to start again, or repeat the first command"));
}

}  // namespace

absl::Status CalibrationOptions::Validate() const {
  const auto check = [](const char* name, std::int64_t value, std::int64_t low,
                        std::int64_t high) -> absl::Status {
    if (value >= low && value <= high) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", value, " is not in ", low, " … ", high));
  };
  if (output.empty()) return absl::InvalidArgumentError("out: the path is empty");
  absl::Status status = check("rows_per_bucket", rows_per_bucket, 1, 1 << 20);
  if (status.ok()) status = check("step_tokens", step_tokens, 1, 1 << 20);
  return status;
}

absl::Status CheckWritable(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot write: it is a folder"));
  }
  const std::string probe = path + ".probe";
  const absl::Status status = WriteWholeFile(probe, "");
  if (!status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat(path, ": its folder is missing or takes no files"));
  }
  unlink(probe.c_str());
  return absl::OkStatus();
}

absl::StatusOr<CalibrationReport> Calibrate(const ModelFiles& files,
                                            std::span<const TextWindow> windows,
                                            const CalibrationOptions& options,
                                            const CalibrationObserver& observer) {
  const ModelConfig& config = files.config();
  absl::Status status = options.Validate();
  if (status.ok()) status = CheckWindows(windows, config);
  if (status.ok()) status = CheckWritable(options.output);
  if (!status.ok()) return status;
  const absl::StatusOr<std::unique_ptr<FileLock>> lock = LockOutput(options.output);
  if (!lock.ok()) return lock.status();
  absl::StatusOr<ModelFingerprint> print = FingerprintOf(files, config, options.kv_dtype);
  if (!print.ok()) return print.status();
  const std::string state_path = options.output + ".state";
  absl::StatusOr<CalibrationState> state =
      StateFor(state_path, HashInputs(*print, windows, options),
               {.num_layers = config.num_layers,
                .num_heads = config.num_heads,
                .num_kv_heads = config.num_kv_heads,
                .head_dim = config.head_dim,
                .lengths = LengthGrid(static_cast<int>(windows[0].tokens.size()))});
  if (!state.ok()) return state.status();
  const absl::StatusOr<std::unique_ptr<Backend>> backend =
      CreateBackend(DeviceKind::kCpu, 0, options.backend);
  if (!backend.ok()) return backend.status();
  Calibrator calibrator(windows, options, observer);
  status = calibrator.Load(files, **backend);
  if (status.ok()) status = calibrator.Run(*state);
  if (!status.ok()) return status;

  CalibrationReport report;
  report.table = FitThresholds(state->statistics, *std::move(print));
  report.num_windows = static_cast<int>(windows.size());
  for (const TextWindow& window : windows) {
    report.num_tokens += static_cast<std::int64_t>(window.tokens.size());
  }
  std::uint64_t scores = 0;
  for (const ScoreHistogram& histogram : state->statistics.all()) {
    for (const auto& counts : histogram.count) {
      scores = std::accumulate(std::begin(counts), std::end(counts), scores);
    }
  }
  report.outside_share =
      scores == 0 ? 0
                  : static_cast<double>(state->statistics.outside) / static_cast<double>(scores);
  if (status = WriteThresholdFile(report.table, options.output); !status.ok()) return status;
  unlink(state_path.c_str());
  return report;
}

}  // namespace thresher
