#include "engine/bench/scheduler_bench.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>
#include <vector>

#include "scheduler/scheduler.h"

namespace thresher {
namespace {

using Clock = std::chrono::steady_clock;

double MicrosecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double CpuMicroseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

double Median(std::vector<float>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

SchedulerOptions SchedulerOptionsOf(const SchedulerBenchOptions& options) {
  SchedulerOptions scheduler;
  scheduler.num_blocks = options.num_blocks;
  scheduler.block_size = options.block_size;
  scheduler.max_sequence_length = 4 * (options.mean_prompt + options.mean_output);
  scheduler.max_running = options.num_running;
  scheduler.token_budget = options.num_running + std::max(128, 2 * options.max_prefill_chunk);
  scheduler.max_prefill_chunk = options.max_prefill_chunk;
  scheduler.prefix_cache = options.prefix_cache;
  return scheduler;
}

// SplitMix64: cheap and small, so that it leaves the caches to the scheduler.
class Random final {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t operator()() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

class Load final {
 public:
  explicit Load(const SchedulerBenchOptions& options) : options_(options), random_(options.seed) {
    for (int i = 0; i < options.num_shared_prefixes; ++i) {
      prefixes_.push_back(Tokens(4 * options.block_size));
    }
  }

  RequestSpec Next() {
    RequestSpec spec;
    spec.id = RequestId{next_id_++};
    spec.prompt = Tokens(Spread(options_.mean_prompt));
    if (!prefixes_.empty() && random_() % 2 == 0) {
      const std::vector<TokenId>& prefix = prefixes_[random_() % prefixes_.size()];
      std::copy_n(prefix.begin(), std::min(prefix.size(), spec.prompt.size()), spec.prompt.begin());
    }
    spec.max_new_tokens = Spread(options_.mean_output);
    return spec;
  }
  TokenId NextToken() { return static_cast<TokenId>(random_() >> 40); }

 private:
  int Spread(int mean) {
    return std::max(1, mean / 2 + static_cast<int>(random_() % static_cast<unsigned>(mean + 1)));
  }
  std::vector<TokenId> Tokens(int count) {
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) token = NextToken();
    return tokens;
  }

  SchedulerBenchOptions options_;
  Random random_;
  std::int64_t next_id_ = 0;
  std::vector<std::vector<TokenId>> prefixes_;
};

// Steps the scheduler as the engine loop does and adds up what it took.
class Bench final {
 public:
  explicit Bench(const SchedulerBenchOptions& options)
      : options_(options), scheduler_(SchedulerOptionsOf(options)), load_(options) {
    schedule_us_.reserve(options.num_steps);
    commit_us_.reserve(options.num_steps);
  }

  absl::Status Submit() {
    // One request waits at all times, so that a place is never empty for want of a client.
    while (scheduler_.load().num_waiting + scheduler_.load().num_running <= options_.num_running) {
      RequestSpec spec = load_.Next();
      const Clock::time_point start = Clock::now();
      if (absl::Status status = scheduler_.Submit({&spec, 1}, absl::UnixEpoch()); !status.ok()) {
        return status;
      }
      submit_us_ += MicrosecondsSince(start);
      ++num_submitted_;
    }
    return absl::OkStatus();
  }

  absl::Status Step(bool measured) {
    if (absl::Status status = Submit(); !status.ok()) return status;
    finished_.clear();
    StepPlan& plan = plans_[next_];
    double cpu_us = -CpuMicroseconds();
    Clock::time_point start = Clock::now();
    scheduler_.Schedule(absl::UnixEpoch(), plan, finished_);
    const double schedule_us = MicrosecondsSince(start);
    cpu_us += CpuMicroseconds();
    next_ = 1 - next_;
    if (options_.two_in_flight && !std::exchange(in_flight_, true)) return absl::OkStatus();
    const StepPlan& oldest = options_.two_in_flight ? plans_[next_] : plan;
    samples_.resize(oldest.num_samples);
    for (StepResult::Sample& sample : samples_) sample.token = load_.NextToken();
    cpu_us -= CpuMicroseconds();
    start = Clock::now();
    scheduler_.Commit(oldest.step, {samples_}, finished_);
    const double commit_us = MicrosecondsSince(start);
    cpu_us += CpuMicroseconds();
    if (!measured) return absl::OkStatus();
    schedule_us_.push_back(static_cast<float>(schedule_us));
    commit_us_.push_back(static_cast<float>(commit_us));
    total_us_ += schedule_us + commit_us;
    total_cpu_us_ += cpu_us;
    figures_.sequences_per_step += static_cast<double>(plan.sequences.size());
    figures_.chunk_steps_percent += !plan.empty() && plan.num_tokens > plan.num_samples;
    figures_.finished_per_step += static_cast<double>(finished_.size());
    ++figures_.num_steps;
    return absl::OkStatus();
  }

  absl::StatusOr<SchedulerBenchFigures> Run() {
    for (int i = 0; i < options_.warmup_steps + options_.num_steps; ++i) {
      if (absl::Status status = Step(i >= options_.warmup_steps); !status.ok()) return status;
      if (i % std::max(1, options_.check_every) != 0) continue;
      if (absl::Status status = scheduler_.CheckInvariants(); !status.ok()) return status;
      ++figures_.num_checks;
    }
    const double steps = std::max(1.0, static_cast<double>(figures_.num_steps));
    const SchedulerLoad load = scheduler_.load();
    figures_.steps_per_second = steps / total_us_ * 1e6;
    figures_.steps_per_cpu_second = steps / total_cpu_us_ * 1e6;
    figures_.schedule_us = Median(schedule_us_);
    figures_.commit_us = Median(commit_us_);
    figures_.submit_us = submit_us_ / std::max<double>(1, num_submitted_);
    figures_.sequences_per_step /= steps;
    figures_.chunk_steps_percent *= 100 / steps;
    figures_.finished_per_step /= steps;
    figures_.prefix_hit_percent =
        100.0 * static_cast<double>(load.prefix_hit_tokens) /
        std::max<double>(1, static_cast<double>(load.prefix_queried_tokens));
    figures_.blocks_cached = load.blocks_cached;
    return figures_;
  }

 private:
  SchedulerBenchOptions options_;
  Scheduler scheduler_;
  Load load_;
  StepPlan plans_[2];
  int next_ = 0;
  bool in_flight_ = false;
  std::vector<StepResult::Sample> samples_;
  std::vector<FinishedRequest> finished_;
  std::vector<float> schedule_us_;
  std::vector<float> commit_us_;
  double total_us_ = 0;
  double total_cpu_us_ = 0;
  double submit_us_ = 0;
  int num_submitted_ = 0;
  SchedulerBenchFigures figures_;
};

}  // namespace

absl::StatusOr<SchedulerBenchFigures> RunSchedulerBench(const SchedulerBenchOptions& options) {
  if (options.mean_output < 1 || options.mean_prompt < 1 || options.num_steps < 1) {
    return absl::InvalidArgumentError("mean_output, mean_prompt and num_steps must be at least 1");
  }
  if (absl::Status status = SchedulerOptionsOf(options).Validate(); !status.ok()) return status;
  return Bench(options).Run();
}

}  // namespace thresher
