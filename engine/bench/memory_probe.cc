#include "engine/bench/memory_probe.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace thresher {

std::int64_t PeakResidentBytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    std::int64_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

double ReadBandwidth(int num_threads) {
  constexpr std::int64_t kWordsPerThread = std::int64_t{24} << 20;  // 192 MiB
  constexpr int kPasses = 4;
  if (num_threads == 0) num_threads = static_cast<int>(std::thread::hardware_concurrency());
  std::vector<double> seconds(static_cast<std::size_t>(num_threads), 1e9);
  std::atomic<std::uint64_t> sink = 0;
  std::atomic<int> num_ready = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < num_threads; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<std::uint64_t> words(kWordsPerThread, static_cast<std::uint64_t>(t) + 1);
      ++num_ready;
      while (num_ready.load() < num_threads) std::this_thread::yield();
      for (int pass = 0; pass < kPasses; ++pass) {
        const auto start = std::chrono::steady_clock::now();
        // Four sums, so that additions do not wait for one another.
        std::uint64_t sums[4] = {};
        for (std::int64_t i = 0; i < kWordsPerThread; i += 4) {
          for (int j = 0; j < 4; ++j) sums[j] += words[static_cast<std::size_t>(i + j)];
        }
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        sink += sums[0] + sums[1] + sums[2] + sums[3];
        seconds[static_cast<std::size_t>(t)] =
            std::min(seconds[static_cast<std::size_t>(t)], took.count());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  double bandwidth = 0;
  for (const double s : seconds) {
    bandwidth += static_cast<double>(kWordsPerThread) * sizeof(std::uint64_t) / s;
  }
  return sink.load() > 0 ? bandwidth : 0;
}

}  // namespace thresher
