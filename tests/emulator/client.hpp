// The subcommands that talk to a running emulator's control API.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/result.hpp"

namespace spotter::emulator {

class Client {
 public:
  // `api` as given by --api, else SPOTTER_EMULATOR, else what is announced in the nearest directory
  // (directory.hpp), else an error that says so.
  static Result<Client> find(const std::string& api);

  // Nothing as body: GET. A refusal by the emulator, and no answer, are errors.
  Result<nlohmann::json> call(const std::string& what,
                              const std::optional<nlohmann::json>& body) const;
  // Asks it to stop and waits until its process is gone (at most 15 s).
  Result<void> stop() const;

 private:
  std::string api_;
  std::string certificate_;
};

// The arguments of `fault NAME ...`, either NAME=VALUE or, for the common faults, in their order:
//   latency ACTION 2s | throttle ACTION 60s | fail ACTION N CODE | imds MODE | capacity ZONE N
struct FaultArguments {
  std::string name;
  std::map<std::string, std::string> arguments;
};
Result<FaultArguments> parse_fault(const std::vector<std::string>& words);

// The state as a person reads it.
std::string describe_state(const nlohmann::json& state);

}  // namespace spotter::emulator
