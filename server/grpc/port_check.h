// Whether a port can be listened on, in words of ours: gRPC only writes its own log.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace thresher {

// Binds `host`, an IP address, at `port` for a moment. Unavailable naming both and the reason;
// InvalidArgument if the host is no IP address. Port 0 is always free.
absl::Status CheckPortIsFree(const std::string& host, int port);

}  // namespace thresher
