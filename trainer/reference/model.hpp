// What a network computes, in libtorch's terms; network.cpp trains it.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "trainer/reference/description.hpp"

namespace spotter::train {

// One way through the model. Training: with dropout, and batch norms learn.
struct Pass {
  bool training = false;
  std::uint64_t dropout_seed = 0;
  bool mixed = false;  // in bfloat16, where autocast says so
};

class Model {
 public:
  virtual ~Model() = default;

  // images: n x channels x height x width, float32, 0..1. Gives n x kClasses logits.
  virtual at::Tensor forward(const at::Tensor& images, const Pass& pass) const = 0;

  // The model's own tensors, shared with it, each with its name.
  std::vector<at::Tensor> weights;     // learned by gradient
  std::vector<at::Tensor> statistics;  // means and variances of batch norms
  std::vector<std::string> weight_names;
  std::vector<std::string> statistic_names;
};

// The multi-layer perceptron of the hyper-parameter example: Dense 512 relu, then each hidden layer
// with activation and dropout, Dropout(0.2), then the classes. Weights Glorot uniform, biases zero
// (Keras). Names as in torch.nn.Sequential(Flatten, Linear, ReLU, then Linear, activation and
// Dropout for each hidden layer, Dropout, Linear).
std::unique_ptr<Model> make_mlp(const Parameters& parameters, const Shape& shape);

// Residual networks (He et al., Deep Residual Learning for Image Recognition, 2015): resnet50 of
// bottlenecks and resnet18 of basic blocks with the stem of the spot example (7 x 7 / 2, pooled),
// resnet8 the smallest of the paper's own for CIFAR-10 (stem 3 x 3, 16 channels). Weights He
// uniform. Names as in torchvision.models.resnet50 and resnet18, which can load them.
std::unique_ptr<Model> make_resnet(const Parameters& parameters, const Shape& shape);

// The model as TorchScript (Network::script()); its tensors are on the CPU.
Result<std::string> torch_script(const Model& model, const Description& description);

// Uniform in +-limit, drawn from the seed; `number` tells one tensor of the model from the others.
at::Tensor uniform_weights(at::IntArrayRef sizes, double limit, std::uint64_t seed,
                           std::uint64_t number);

}  // namespace spotter::train
