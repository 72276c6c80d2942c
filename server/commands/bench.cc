// `thresher bench`: picks what to measure.
#include <iostream>

#include "server/commands/commands.h"

namespace thresher {

int RunBench(const std::vector<std::string>& arguments) {
  constexpr char kUsage[] = "usage: thresher bench offline|serve|scheduler|step [flags]\n";
  const std::string kind = arguments.empty() ? "" : arguments[0];
  const std::vector<std::string> rest(arguments.begin() + (arguments.empty() ? 0 : 1),
                                      arguments.end());
  if (kind == "serve") return RunBenchServe(rest);
  if (kind == "offline") return RunBenchOffline(rest);
  if (kind == "scheduler") return RunBenchScheduler(rest);
  if (kind == "step") return RunBenchStep(rest);
  if (kind == "--help" || kind == "-h") {
    std::cout << kUsage;
    return 0;
  }
  std::cerr << "thresher: unknown benchmark '" << kind << "'\n" << kUsage;
  return 2;
}

}  // namespace thresher
