// Command-line flags from a configuration message: a field is a flag of the same name.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace google::protobuf {
class Message;
}

namespace thresher {

// Sets the message's fields from "--name value" and "--name=value"; a boolean flag needs no value
// and "--no-name" clears it; a repeated string takes one value or more, as often as given.
// InvalidArgument naming the flag: unknown, without a value, given
// twice, of the wrong type, or an argument that is no flag.
absl::Status ParseFlags(const std::vector<std::string>& arguments,
                        google::protobuf::Message& message);

// Reads a text proto over what the message holds. NotFound or InvalidArgument with file and line.
absl::Status ReadConfigFile(const std::string& path, google::protobuf::Message& message);

// One line for each flag: its name, type, default (the message's present value) and help.
std::string FlagHelp(const google::protobuf::Message& defaults);

}  // namespace thresher
