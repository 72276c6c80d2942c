// `thresher bench scheduler`: steps a second of the scheduler alone; one JSON line.
#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "engine/bench/scheduler_bench.h"
#include "server/commands/command_line.h"
#include "server/commands/commands.h"
#include "server/config/defaults.h"

namespace thresher {
namespace {

constexpr char kSchedulerUsage[] =
    "usage: thresher bench scheduler [flags]\n"
    "Plans and commits steps as fast as it can, with no model behind them.\n";

}  // namespace

int RunBenchScheduler(const std::vector<std::string>& arguments) {
  v1::BenchSchedulerConfig flags = DefaultBenchSchedulerConfig();
  if (std::optional<int> end = ReadCommandLine(kSchedulerUsage, arguments, flags)) return *end;
  SchedulerBenchOptions options;
  options.num_running = flags.running();
  options.num_steps = flags.steps();
  options.num_blocks = flags.blocks();
  options.prefix_cache = flags.prefix_cache();
  const absl::StatusOr<SchedulerBenchFigures> figures = RunSchedulerBench(options);
  if (!figures.ok()) return Fail(figures.status());
  std::string command = "thresher bench scheduler";
  for (const std::string& argument : arguments) absl::StrAppend(&command, " ", argument);
  const nlohmann::ordered_json line{{"bench", "scheduler"},
                                    {"case", absl::StrCat("running_", flags.running())},
                                    {"device", "cpu, 1 thread"},
                                    {"commit", flags.commit()},
                                    {"command", command},
                                    {"value", figures->steps_per_second},
                                    {"unit", "steps/s"},
                                    {"floor", nullptr},
                                    {"peer", nullptr},
                                    {"steps_per_cpu_second", figures->steps_per_cpu_second},
                                    {"schedule_us", figures->schedule_us},
                                    {"commit_us", figures->commit_us},
                                    {"submit_us", figures->submit_us},
                                    {"sequences_per_step", figures->sequences_per_step},
                                    {"chunk_steps_percent", figures->chunk_steps_percent},
                                    {"finished_per_step", figures->finished_per_step},
                                    {"prefix_hit_percent", figures->prefix_hit_percent},
                                    {"blocks_cached", figures->blocks_cached},
                                    {"invariant_checks", figures->num_checks}};
  std::cout << line.dump() << std::endl;
  return 0;
}

}  // namespace thresher
