// The options of `spotter pipe`.
#pragma once

#include <string>
#include <vector>

#include "agent/act/aws/environment.hpp"
#include "agent/data/plane.hpp"
#include "agent/wire/result.hpp"

namespace CLI {
class App;
}

namespace spotter::command {

struct PipeOptions {
  std::vector<std::string> channels;
  std::vector<std::string> starts;
  std::string config;
  std::string directory = "/opt/ml/input/data";
  std::string state;
  std::string shard;
  unsigned budget = 256;  // MiB
  bool copy = false;
  std::vector<std::string> command;

  void add_to(CLI::App& app);
  Result<data::PlaneSettings> settings(const act::Environment& environment) const;
};

}  // namespace spotter::command
