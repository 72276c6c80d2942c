// What the attention benchmarks share: arguments, clocks, timing, and caches that come from memory.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "kernels/backend.h"
#include "tests/support/reference/paged_attention_case.h"

namespace thresher {

// Of the calling thread's processor time, not of the clock: for one thread on a shared machine.
inline double ProcessorSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline double ClockSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

[[noreturn]] inline void Fail(const std::string& message) {
  std::cerr << message << '\n';
  std::exit(1);
}

struct Arguments {
  BackendOptions options{.num_threads = 2};
  PagedAttentionShape shape{.num_heads = 9, .num_kv_heads = 3, .head_dim = 64, .block_size = 64};
  int runs = 15;
  double (*now)() = ClockSeconds;
  std::string filter;
  std::string commit;
  std::string command;
};

inline int ParseCount(const std::string& text) {
  int count = 0;
  if (!absl::SimpleAtoi(text, &count) || count < 1) Fail("not a positive number: " + text);
  return count;
}

inline void ParseHeads(const std::string& value, PagedAttentionShape& shape) {
  const std::vector<std::string> parts = absl::StrSplit(value, ',');
  if (parts.size() != 3) Fail("expected --heads=query,kv,head_dim");
  shape.num_heads = ParseCount(parts[0]);
  shape.num_kv_heads = ParseCount(parts[1]);
  shape.head_dim = ParseCount(parts[2]);
}

// `name` of the benchmark, for the command that its lines state. `own` takes the benchmark's own
// arguments and returns whether it knows the name; null: there are none.
inline Arguments Parse(
    const std::string& name_of_bench, int argc, char** argv,
    const std::function<bool(const std::string& name, const std::string& value)>& own = nullptr) {
  Arguments arguments;
  arguments.command = name_of_bench;
  const std::vector<std::string> isas = {"avx2", "avx512", "avx512bf16"};
  const std::vector<std::string> dtypes = {"f32", "bf16", "f16"};
  const auto choose = [](const std::vector<std::string>& names, const std::string& value) {
    const auto found = std::find(names.begin(), names.end(), value);
    if (found == names.end()) Fail("unknown value " + value);
    return static_cast<int>(found - names.begin());
  };
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    arguments.command += " " + argument;
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (name == "--isa") {
      arguments.options.max_isa = static_cast<CpuIsa>(choose(isas, value));
    } else if (name == "--full-precision") {
      arguments.options.full_precision = true;
    } else if (name == "--threads") {
      arguments.options.num_threads = ParseCount(value);
    } else if (name == "--runs") {
      arguments.runs = ParseCount(value);
    } else if (name == "--processor-time") {
      arguments.now = ProcessorSeconds;
    } else if (name == "--kv") {
      arguments.shape.kv_dtype = static_cast<DType>(choose(dtypes, value));
    } else if (name == "--heads") {
      ParseHeads(value, arguments.shape);
    } else if (name == "--filter") {
      arguments.filter = value;
    } else if (name == "--commit") {
      arguments.commit = value;
    } else if (own == nullptr || !own(name, value)) {
      Fail("unknown argument " + argument);
    }
  }
  return arguments;
}

template <typename T>
T Take(absl::StatusOr<T> value) {
  if (!value.ok()) Fail(value.status().ToString());
  return *std::move(value);
}

inline void Require(const absl::Status& status) {
  if (!status.ok()) Fail(status.ToString());
}

struct Times {
  double median = 0;
  double best = 0;
};
inline Times TimesOf(double (*now)(), int runs, const std::function<void()>& call) {
  call();
  std::vector<double> seconds;
  for (int run = 0; run < runs; ++run) {
    const double start = now();
    call();
    seconds.push_back(now() - start);
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front()};
}

// One layer's cache for each of as many layers as matter; all hold the same.
struct Layers {
  // At least `mebibytes` in all, or as many layers as a model has.
  Layers(PagedAttentionCase& attention, Device& device, int mebibytes) {
    const KvCacheLayer first = attention.Cache();
    const std::int64_t bytes = first.k.num_bytes(), sum_bytes = first.k_sums.num_bytes();
    const std::int64_t all = 2 * (bytes + sum_bytes);
    const std::int64_t count =
        std::clamp<std::int64_t>(((std::int64_t{mebibytes} << 20) + all - 1) / all, 1, 30);
    // One buffer, as an engine's pool is.
    memory = Take(device.Allocate(all * count));
    std::int64_t used = 0;
    const auto copy = [&](TensorView& view) {
      void* const to = memory.bytes_at(used);
      std::memcpy(to, view.data, view.num_bytes());
      used += view.num_bytes();
      view.data = to;
    };
    for (std::int64_t i = 0; i < count; ++i) {
      KvCacheLayer layer = first;
      copy(layer.k);
      copy(layer.v);
      copy(layer.k_sums);
      copy(layer.v_sums);
      caches.push_back(layer);
    }
  }
  DeviceBuffer memory;
  std::vector<KvCacheLayer> caches;
};

}  // namespace thresher
