// The subcommands of the binary. Each takes the arguments after its name, prints errors to stderr
// and returns the process's exit status: 0, 1 (it failed) or 2 (the arguments are wrong).
#pragma once

#include <string>
#include <vector>

namespace thresher {

int RunServe(const std::vector<std::string>& arguments);
int RunGenerate(const std::vector<std::string>& arguments);
int RunEvaluate(const std::vector<std::string>& arguments);
int RunCalibrate(const std::vector<std::string>& arguments);
// "serve", "offline", "scheduler" or "step" comes first.
int RunBench(const std::vector<std::string>& arguments);
int RunBenchServe(const std::vector<std::string>& arguments);
int RunBenchOffline(const std::vector<std::string>& arguments);
int RunBenchScheduler(const std::vector<std::string>& arguments);
int RunBenchStep(const std::vector<std::string>& arguments);

}  // namespace thresher
