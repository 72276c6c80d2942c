#include "engine/attention/calibrate/calibration_state.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/attention/content_hash.h"
#include "engine/attention/write_file.h"
#include "engine/model/byte_cursor.h"
#include "engine/model/mapped_file.h"

namespace thresher {
namespace {

constexpr std::string_view kMagic = "THRCALIB";
constexpr std::uint32_t kVersion = 1;

template <typename T>
void Append(std::span<const T> values, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

template <typename T>
void AppendAll(const std::vector<T>& values, std::string& bytes) {
  Append(std::span<const T>(values), bytes);
}

template <typename T>
void AppendNumber(T value, std::string& bytes) {
  Append(std::span<const T>(&value, 1), bytes);
}

// The stretch of values from the first to the last that is not zero, behind its place and length.
template <typename T>
void AppendStretch(std::span<const T> values, std::string& bytes) {
  const auto is_set = [](T value) { return value != 0; };
  const auto first = std::find_if(values.begin(), values.end(), is_set);
  const auto end = std::find_if(values.rbegin(), values.rend(), is_set).base();
  const auto begin = static_cast<std::uint32_t>(first - values.begin());
  const auto count = first == values.end() ? 0u : static_cast<std::uint32_t>(end - first);
  AppendNumber(begin, bytes);
  AppendNumber(count, bytes);
  if (count > 0) Append(values.subspan(begin, count), bytes);
}

absl::Status Damaged() { return absl::InvalidArgumentError("the file is damaged"); }

template <typename T>
absl::Status Read(ByteCursor& cursor, std::span<T> values) {
  const auto bytes = cursor.Take(values.size_bytes(), "numbers");
  if (!bytes.ok()) return bytes.status();
  if (!values.empty()) std::memcpy(values.data(), bytes->data(), bytes->size());
  return absl::OkStatus();
}

template <typename T>
std::span<T> All(std::vector<T>& values) {
  return values;
}

template <typename T>
std::span<T> Only(T& value) {
  return {&value, 1};
}

template <typename T>
absl::Status ReadStretch(ByteCursor& cursor, std::span<T> values) {
  std::uint32_t begin = 0, count = 0;
  absl::Status status = Read(cursor, Only(begin));
  if (status.ok()) status = Read(cursor, Only(count));
  if (!status.ok() || count == 0) return status;
  if (begin >= values.size() || count > values.size() - begin) return Damaged();
  return Read(cursor, values.subspan(begin, count));
}

absl::Status ReadStatistics(ByteCursor& cursor, ScoreStatistics& statistics) {
  absl::Status status = Read(cursor, All(statistics.samples));
  if (status.ok()) status = Read(cursor, Only(statistics.outside));
  if (status.ok()) status = Read(cursor, Only(statistics.value_tokens));
  if (status.ok()) status = Read(cursor, All(statistics.value_moments));
  if (status.ok()) status = Read(cursor, All(statistics.value_totals));
  for (ScoreHistogram& histogram : statistics.all()) {
    for (auto& counts : histogram.count) {
      if (status.ok()) status = ReadStretch(cursor, std::span<std::uint32_t>(counts));
    }
    for (auto& weights : histogram.weight) {
      if (status.ok()) status = ReadStretch(cursor, std::span<double>(weights));
    }
  }
  return status;
}

absl::StatusOr<CalibrationState> Decode(std::span<const std::byte> file, std::uint64_t inputs,
                                        const StatisticsShape& shape) {
  constexpr std::size_t kChecksumBytes = sizeof(std::uint64_t);
  const auto magic = std::as_bytes(std::span(kMagic));
  if (file.size() < magic.size() + kChecksumBytes ||
      !std::equal(magic.begin(), magic.end(), file.begin())) {
    return Damaged();
  }
  const auto body = file.first(file.size() - kChecksumBytes);
  ContentHash hash;
  hash.Add(body);
  std::uint64_t checksum = 0;
  std::memcpy(&checksum, file.data() + body.size(), sizeof(checksum));
  if (checksum != hash.value()) return Damaged();
  ByteCursor cursor(body.subspan(magic.size()));
  std::uint32_t version = 0;
  CalibrationState state{.statistics = ScoreStatistics(shape)};
  absl::Status status = Read(cursor, Only(version));
  if (status.ok()) status = Read(cursor, Only(state.inputs));
  if (status.ok() && (version != kVersion || state.inputs != inputs)) {
    return absl::FailedPreconditionError("it is of a calibration with other inputs");
  }
  if (status.ok()) status = Read(cursor, Only(state.next_window));
  if (status.ok()) status = ReadStatistics(cursor, state.statistics);
  if (!status.ok()) return status;
  if (cursor.remaining() != 0 || state.next_window < 0) return Damaged();
  return state;
}

}  // namespace

absl::Status WriteCalibrationState(const CalibrationState& state, const std::string& path) {
  const ScoreStatistics& statistics = state.statistics;
  std::string bytes(kMagic);
  AppendNumber(kVersion, bytes);
  AppendNumber(state.inputs, bytes);
  AppendNumber(state.next_window, bytes);
  AppendAll(statistics.samples, bytes);
  AppendNumber(statistics.outside, bytes);
  AppendNumber(statistics.value_tokens, bytes);
  AppendAll(statistics.value_moments, bytes);
  AppendAll(statistics.value_totals, bytes);
  for (const ScoreHistogram& histogram : statistics.all()) {
    for (const auto& counts : histogram.count) {
      AppendStretch(std::span<const std::uint32_t>(counts), bytes);
    }
    for (const auto& weights : histogram.weight) {
      AppendStretch(std::span<const double>(weights), bytes);
    }
  }
  ContentHash hash;
  hash.Add(bytes);
  AppendNumber(hash.value(), bytes);
  return WriteWholeFile(path, bytes);
}

absl::StatusOr<CalibrationState> ReadCalibrationState(const std::string& path, std::uint64_t inputs,
                                                      const StatisticsShape& shape) {
  const absl::StatusOr<std::unique_ptr<MappedFile>> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  absl::StatusOr<CalibrationState> state = Decode((*file)->bytes(), inputs, shape);
  if (state.ok()) return state;
  return absl::Status(state.status().code(),
                      absl::StrCat(path, ": ", std::string(state.status().message())));
}

}  // namespace thresher
