#include "server/commands/command_line.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "server/config/flag_parser.h"
#include "server/config/server_config.h"

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

absl::Status CheckRunsOnCpu(const std::string& device, const std::string& missing) {
  const absl::StatusOr<DeviceKind> kind = DeviceFromFlag(device);
  if (!kind.ok() || *kind == DeviceKind::kCpu) return kind.status();
  return absl::UnimplementedError(
      absl::StrCat("--device cuda: there is no GPU code for ", missing, "; use --device cpu"));
}

int Fail(const absl::Status& status) {
  std::cerr << "thresher: " << status.message() << "\n";
  return 1;
}

}  // namespace thresher
