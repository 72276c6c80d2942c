// The one binary: picks the subcommand.
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "server/commands/commands.h"

namespace {

constexpr char kUsage[] =
    "usage: thresher COMMAND [flags]\n"
    "  serve     serve a model over HTTP and gRPC\n"
    "  generate  print a completion\n"
    "  evaluate  measure what sparse attention costs and loses on a text\n"
    "  calibrate make a model's threshold table for sparse attention\n"
    "  bench     measure: bench offline, serve, scheduler or step\n"
    "thresher COMMAND --help lists a command's flags\n";

// OpenMP reads its settings when its library is loaded, before main, so the process starts itself
// again with ours, unless the operator has chosen. A decode step forks some hundred times: threads
// that sleep at once cost it more than half its speed (a wake takes 8 us, a product 20 us), and
// threads that never sleep burn every core of an idle server. This count spins for some 5 us: a
// longer one gains a twentieth on a quiet machine, and on one whose cores are shared it spins away
// the very time that the other thread needs (a count of 20000: a tenth of this one's speed).
void BoundSpinning(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  setenv("GOMP_SPINCOUNT", "500", 1);
  execv("/proc/self/exe", argv);
  // Without /proc it runs on with OpenMP's own choice: slower beside others, never wrong.
}

int RunCommand(const std::vector<std::string>& arguments) {
  const std::string command = arguments.empty() ? "" : arguments[0];
  const std::vector<std::string> rest(arguments.begin() + (arguments.empty() ? 0 : 1),
                                      arguments.end());
  if (command == "serve") return thresher::RunServe(rest);
  if (command == "generate") return thresher::RunGenerate(rest);
  if (command == "evaluate") return thresher::RunEvaluate(rest);
  if (command == "calibrate") return thresher::RunCalibrate(rest);
  if (command == "bench") return thresher::RunBench(rest);
  if (command == "--help" || command == "-h" || command == "help") {
    std::cout << kUsage;
    return 0;
  }
  std::cerr << "thresher: " << (command.empty() ? "no command" : "unknown command " + command)
            << "\n"
            << kUsage;
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  BoundSpinning(argv);
  const int status = RunCommand({argv + 1, argv + argc});
  // A full disk or a closed pipe must not pass for an answer.
  if (status == 0 && !std::cout.flush()) {
    std::cerr << "thresher: cannot write to standard output\n";
    return 1;
  }
  return status;
}
