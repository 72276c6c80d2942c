#include "server/commands/command_line.h"

#include <algorithm>
#include <iostream>

#include "server/config/flag_parser.h"

namespace thresher {

std::optional<int> ReadCommandLine(const std::string& usage,
                                   const std::vector<std::string>& arguments,
                                   google::protobuf::Message& message) {
  const auto is_help = [](const std::string& argument) {
    return argument == "--help" || argument == "-h";
  };
  if (std::any_of(arguments.begin(), arguments.end(), is_help)) {
    std::cout << usage << "\n" << FlagHelp(message);
    return 0;
  }
  if (absl::Status status = ParseFlags(arguments, message); !status.ok()) {
    std::cerr << "thresher: " << status.message() << "\n" << usage << "--help lists the flags\n";
    return 2;
  }
  return std::nullopt;
}

int Fail(const absl::Status& status) {
  std::cerr << "thresher: " << status.message() << "\n";
  return 1;
}

}  // namespace thresher
