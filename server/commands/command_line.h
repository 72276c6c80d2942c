// What all subcommands do with their arguments.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace google::protobuf {
class Message;
}

namespace thresher {

// Reads flags over the defaults in `message`. The exit status if the command is to end here: 0
// after --help, 2 after an error, which it prints.
std::optional<int> ReadCommandLine(const std::string& usage,
                                   const std::vector<std::string>& arguments,
                                   google::protobuf::Message& message);

// For a command that needs more than the ops of a GPU cover. InvalidArgument for a --device that
// does not exist; Unimplemented, naming what is missing, for cuda.
absl::Status CheckRunsOnCpu(const std::string& device, const std::string& missing);

// Prints "thresher: message" and returns 1.
int Fail(const absl::Status& status);

}  // namespace thresher
