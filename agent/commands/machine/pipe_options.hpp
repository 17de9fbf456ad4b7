// The environment of SageMaker's training containers: folders, configuration files and variables,
// so that a program written for SageMaker runs unchanged.
// Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo.html,
// https://github.com/aws/sagemaker-training-toolkit/blob/master/ENVIRONMENT_VARIABLES.md
#pragma once

#include <CLI/CLI.hpp>
#include <map>

#include "agent/aws/settings/settings.hpp"
#include "agent/config/channel.hpp"
#include "agent/data/catalogue.hpp"
#include "agent/data/plane.hpp"

namespace spotter::command {

struct Container {
  fs::path root;  // /opt/ml
  fs::path data;  // root/input/data, or another folder with the channels
  std::string job = "spotter";
  std::map<std::string, std::string> hyperparameters;  // texts, as in SageMaker
  std::vector<wire::Channel> channels;
  fs::path checkpoints;  // target of root/checkpoints; empty: that is a folder
  std::size_t processors = 1;
  std::size_t accelerators = 0;
  std::string network = "eth0";  // interface
  data::Shard host;              // which of the job's instances this is: algo-1, algo-2, ...

  // From a JSON object: texts are kept, all other values become JSON texts.
  Result<void> take_hyperparameters(std::string_view json);
  // Reads processors, accelerators and interface from this machine.
  void look_around();
};

// TRAINING_JOB_NAME, SM_*, SAGEMAKER_BASE_DIR. A channel's or hyperparameter's name that is no
// variable's is set twice: as it is, and with underscores, which shells accept.
std::map<std::string, std::string> variables(const Container& container);

// Only the channels' variables: SM_CHANNELS, SM_CHANNEL_TRAIN.
std::map<std::string, std::string> channel_variables(const Container& container);

// Makes the folders, writes the documents, and removes root/output/failure of an earlier run.
Result<void> prepare(const Container& container);

// The first 1024 bytes of root/output/failure; empty: the program wrote none.
std::string reason_of_failure(const Container& container);

// The options of `spotter pipe`.
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
  fs::path root_folder() const;  // empty: none
};

}  // namespace spotter::command
