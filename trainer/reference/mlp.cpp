#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

#include "trainer/reference/model.hpp"
#include "trainer/reference/order.hpp"

namespace spotter::train {

namespace {

constexpr std::uint32_t kFirstLayer = 512;
constexpr double kLastDropout = 0.2;  // before the classes, whatever dropout_rate is

at::Tensor activate(const at::Tensor& values, Activation function) {
  switch (function) {
    case Activation::Tanh:
      return at::tanh(values);
    case Activation::Sigmoid:
      return at::sigmoid(values);
    case Activation::Elu:
      return at::elu(values);
    case Activation::Relu:
      break;
  }
  return at::relu(values);
}

class Mlp : public Model {
 public:
  Mlp(const Parameters& parameters, const Shape& shape) : parameters_(parameters) {
    std::vector<std::int64_t> sizes = {static_cast<std::int64_t>(shape.pixels()), kFirstLayer};
    sizes.insert(sizes.end(), parameters.hidden_nodes.begin(), parameters.hidden_nodes.end());
    sizes.push_back(kClasses);
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
      const double limit = std::sqrt(6.0 / static_cast<double>(sizes[i] + sizes[i + 1]));
      weights.push_back(uniform_weights({sizes[i + 1], sizes[i]}, limit, parameters.seed, i));
      weights.push_back(at::zeros({sizes[i + 1]}));
      // Behind Flatten come Linear and ReLU, three modules for each hidden layer, the last Dropout.
      const bool last = i + 2 == sizes.size();
      const std::string name = std::to_string(i == 0 ? 1 : 3 * i + (last ? 1 : 0));
      weight_names.insert(weight_names.end(), {name + ".weight", name + ".bias"});
    }
  }

  // The masks are drawn on the CPU, so that they are the same wherever the rest is computed.
  at::Tensor forward(const at::Tensor& images, const Pass& pass) const override {
    const at::Generator masks = at::detail::createCPUGenerator(pass.dropout_seed);
    const auto drop = [&](const at::Tensor& values, double rate) {
      if (!pass.training || rate <= 0) return values;
      const double keep = 1 - rate;
      const at::Tensor mask = at::empty(values.sizes()).bernoulli_(keep, masks).div_(keep);
      return values * mask.to(values.device());
    };
    at::Tensor values = images.flatten(1);
    for (std::size_t i = 0; i < weights.size(); i += 2) {
      const bool last = i + 2 == weights.size();
      if (last) values = drop(values, kLastDropout);
      values = at::linear(values, weights[i], weights[i + 1]);
      if (last) break;
      values = activate(values, i == 0 ? Activation::Relu : parameters_.activate_fn);
      if (i > 0) values = drop(values, parameters_.dropout_rate);
    }
    return values;
  }

 private:
  Parameters parameters_;
};

}  // namespace

std::unique_ptr<Model> make_mlp(const Parameters& parameters, const Shape& shape) {
  return std::make_unique<Mlp>(parameters, shape);
}

}  // namespace spotter::train
