// The options of `spotter pipe`.
#pragma once

#include <string>
#include <vector>

#include "agent/aws/settings/settings.hpp"
#include "agent/base/result.hpp"
#include "agent/data/plane.hpp"
#include "agent/tools/pipe/container.hpp"

namespace CLI {
class App;
}

namespace spotter::command {

struct PipeOptions {
  std::vector<std::string> channels;
  std::vector<std::string> starts;
  std::string list;  // a file with channels, one a line
  std::string config;
  std::string root;        // SageMaker's folder; empty: /opt/ml, or none beside a directory
  std::string directory;   // of the channels; empty: input/data below the root
  std::string parameters;  // a file
  std::string state;
  std::string cache;
  std::string shard;
  unsigned budget = 0;  // MiB; 0: of default_budget
  bool copy = false;
  std::vector<std::string> command;

  void add_to(CLI::App& app);
  Result<data::PlaneSettings> settings(const act::Environment& environment) const;
  // The trainer's environment. Without a root it has only the channels' variables. The job's
  // instances are those of --shard, or of an array of jobs.
  Result<Container> container(const data::PlaneSettings& settings) const;

 private:
  std::filesystem::path root_folder() const;  // empty: none
};

}  // namespace spotter::command
