// What SageMaker puts around a training container: folders, files of configuration and variables,
// so that a program written for it runs unchanged.
// Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo.html,
// https://github.com/aws/sagemaker-training-toolkit/blob/master/ENVIRONMENT_VARIABLES.md
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/data/order.hpp"
#include "agent/job/channel.hpp"

namespace spotter::command {

struct Container {
  std::filesystem::path root;  // /opt/ml
  std::filesystem::path data;  // root/input/data, or wherever the channels are
  std::string job = "spotter";
  std::map<std::string, std::string> hyperparameters;  // texts, as SageMaker has them
  std::vector<wire::Channel> channels;
  std::filesystem::path checkpoints;  // what root/checkpoints leads to; empty: it is a folder
  std::size_t processors = 1;
  std::size_t accelerators = 0;
  std::string network = "eth0";  // interface
  data::Shard host;              // which of the job's instances this is: algo-1, algo-2, ...

  // Of a JSON object: a text stays what it is, everything else is written as JSON.
  Result<void> take_hyperparameters(std::string_view json);
  // Processors, accelerators, interface: of this machine.
  void look_around();
};

// The documents below root/input/config, by name.
std::map<std::string, nlohmann::json> documents(const Container& container);

// TRAINING_JOB_NAME, SM_*, SAGEMAKER_BASE_DIR. Where a channel's or hyperparameter's name is no
// variable's, it is there twice: as it is, and with underscores, which shells let through.
std::map<std::string, std::string> variables(const Container& container);

// The channels' variables alone: SM_CHANNELS, SM_CHANNEL_TRAIN.
std::map<std::string, std::string> channel_variables(const Container& container);

// Makes the folders, writes the documents, and removes what an earlier run left in
// root/output/failure.
Result<void> prepare(const Container& container);

// What the program wrote to root/output/failure, its first 1024 bytes; empty: nothing.
std::string reason_of_failure(const Container& container);

}  // namespace spotter::command
