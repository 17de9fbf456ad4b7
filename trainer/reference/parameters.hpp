// The hyper-parameters, by the names of the blog's example of a search on AWS Batch: batch_size,
// epochs, hidden_nodes, dropout_rate, activate_fn, optimizer; and model, learning_rate, seed, amp.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::train {

enum class Architecture { Mlp, Resnet50, Resnet18, Resnet8 };
enum class Activation { Relu, Tanh, Sigmoid, Elu };
enum class Optimizer { RmsProp, Adam, Sgd };

struct Parameters {
  Architecture architecture = Architecture::Mlp;
  std::uint32_t batch_size = 128;
  std::uint32_t epochs = 20;
  std::vector<std::uint32_t> hidden_nodes = {10, 20, 30};  // mlp, after its first of 512
  double dropout_rate = 0.2;
  Activation activate_fn = Activation::Relu;
  Optimizer optimizer = Optimizer::RmsProp;
  double learning_rate = 0.001;
  std::uint64_t seed = 1;
  bool amp = false;  // mixed precision: train with bfloat16 where PyTorch's autocast does
};

// The parameters of a model's own example: the MLP of a blog's search for
// hyper-parameters ([10, 20, 30], 20 epochs, batch 128, RMSprop); the residual networks as
// ResNet-50 in AWS's spot example (batch 512, Adam, 50 epochs).
Parameters defaults(Architecture architecture);
Result<Architecture> read_architecture(const std::string& name);

// Sets one parameter from text, as it stands on a command line ("256,128", "0.2", "relu").
Result<void> set(Parameters& parameters, const std::string& name, const std::string& value);

// Sets those that a JSON object names. Values may also be texts, as SageMaker passes them. The
// error names every mistake.
Result<void> merge(Parameters& parameters, const std::string& json);

nlohmann::json to_json(const Parameters& parameters);

// The safetensors format, as far as float32 goes: u64 (little-endian) size of the header; the
// header, JSON, padded with spaces to a multiple of 8; then the tensors' bytes without a gap.
// Source: https://github.com/huggingface/safetensors (README.md, "Format").

struct NamedTensor {
  std::string name;
  std::vector<std::uint64_t> shape;  // empty: one number
  std::string_view bytes;            // float32, little-endian, the last dimension closest together
};

using Metadata = std::map<std::string, std::string>;

// The tensors lie in the order given. Each has as many bytes as its shape says.
std::string write_safetensors(std::span<const NamedTensor> tensors, const Metadata& metadata);

// Points the bytes of those wanted into the file, which must have these tensors and no others.
Result<void> fill(std::span<NamedTensor> wanted, std::string_view file);

}  // namespace spotter::train
