// Ends the process when the scheduler's own bookkeeping is wrong: a bug, never a client's doing.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace thresher {

// `what` says which rule broke; the two numbers are the context that it names.
[[noreturn]] inline void BrokenInvariant(const char* what, std::int64_t first,
                                         std::int64_t second) {
  std::fprintf(stderr, "scheduler: broken invariant: %s (%lld, %lld)\n", what,
               static_cast<long long>(first), static_cast<long long>(second));
  std::abort();
}

inline void RequireInvariant(bool holds, const char* what, std::int64_t first,
                             std::int64_t second) {
  if (!holds) [[unlikely]] {
    BrokenInvariant(what, first, second);
  }
}

}  // namespace thresher
