#include "server/commands/signals.h"

#include <csignal>
#include <cstdlib>
#include <thread>

namespace thresher {

Signals::Signals() {
  // A client that closes its socket is an error code, not a signal.
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread([this] { Run(); }).detach();
}

void Signals::Run() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  while (true) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    // 128 and the signal's number is how shells report a signal's end.
    if (!drains_.load() || asked_.exchange(true)) std::_Exit(128 + signal);
  }
}

}  // namespace thresher
