// The hyper-parameters of the MLP, by the names of the SageMaker/Batch example: batch_size, epochs,
// hidden_nodes, dropout_rate, activate_fn, optimizer; and learning_rate, seed.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "agent/wire/result.hpp"

namespace spotter::train {

enum class Activation { Relu, Tanh, Sigmoid, Elu };
enum class Optimizer { RmsProp, Adam, Sgd };

struct Parameters {
  std::uint32_t batch_size = 128;
  std::uint32_t epochs = 5;
  std::vector<std::uint32_t> hidden_nodes = {256, 128};  // after the first, fixed layer of 512
  double dropout_rate = 0.2;
  Activation activate_fn = Activation::Relu;
  Optimizer optimizer = Optimizer::RmsProp;
  double learning_rate = 0.001;
  std::uint64_t seed = 1;
};

// Sets one parameter from text, as it stands on a command line ("256,128", "0.2", "relu").
Result<void> set(Parameters& parameters, const std::string& name, const std::string& value);

// Sets those that a JSON object names. Values may also be texts, as SageMaker passes them. The
// error tells every mistake at once.
Result<void> merge(Parameters& parameters, const std::string& json);

nlohmann::json to_json(const Parameters& parameters);

}  // namespace spotter::train
