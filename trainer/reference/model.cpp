#include "trainer/reference/model.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/script.h>

#include <array>
#include <cmath>
#include <exception>
#include <sstream>

#include "trainer/reference/feed.hpp"

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

namespace {

constexpr double kMomentum = 0.1;
constexpr double kEpsilon = 1e-5;

struct Plan {
  bool bottleneck = false;  // 1 x 1, 3 x 3, 1 x 1 to four times the width; else 3 x 3, 3 x 3
  bool large_stem = false;
  std::int64_t width = 16;                // of the first stage; each stage doubles it
  std::array<int, 4> blocks{1, 1, 1, 0};  // of each stage
};

Plan plan_of(Architecture architecture) {
  switch (architecture) {
    case Architecture::Resnet50:
      return {true, true, 64, {3, 4, 6, 3}};
    case Architecture::Resnet18:
      return {false, true, 64, {2, 2, 2, 2}};
    default:
      return {};
  }
}

// A convolution without bias and the batch norm behind it; indices into the model's tensors.
struct Unit {
  std::size_t weights = 0;     // kernel, scale, shift
  std::size_t statistics = 0;  // mean, variance
  std::int64_t stride = 1;
  std::int64_t padding = 0;
};

struct Block {
  std::vector<Unit> path;
  std::vector<Unit> shortcut;  // empty: the identity
};

class Resnet : public Model {
 public:
  Resnet(const Parameters& parameters, const Shape& shape)
      : seed_(parameters.seed), plan_(plan_of(parameters.architecture)) {
    stem_ = add_unit({"conv1", "bn1"}, shape.channels, plan_.width, plan_.large_stem ? 7 : 3,
                     plan_.large_stem ? 2 : 1);
    std::int64_t in = plan_.width;
    for (std::size_t stage = 0; stage < plan_.blocks.size(); ++stage) {
      for (int block = 0; block < plan_.blocks[stage]; ++block) {
        const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
        const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(block);
        in = add_block(name + ".", in, plan_.width << stage, stride);
      }
    }
    const double limit = std::sqrt(1.0 / static_cast<double>(in));
    weights.push_back(uniform_weights({kClasses, in}, limit, seed_, weights.size()));
    weights.push_back(at::zeros({kClasses}));
    weight_names.insert(weight_names.end(), {"fc.weight", "fc.bias"});
  }

  at::Tensor forward(const at::Tensor& images, const Pass& pass) const override {
    at::Tensor values = at::relu(apply(stem_, images, pass));
    if (plan_.large_stem) values = at::max_pool2d(values, {3, 3}, {2, 2}, {1, 1});
    for (const Block& block : blocks_) {
      at::Tensor shortcut = values;
      for (const Unit& unit : block.shortcut) shortcut = apply(unit, shortcut, pass);
      for (std::size_t i = 0; i < block.path.size(); ++i) {
        values = apply(block.path[i], values, pass);
        if (i + 1 < block.path.size()) values = at::relu(values);
      }
      values = at::relu(values + shortcut);
    }
    values = values.mean({2, 3});
    return at::linear(values, weights[weights.size() - 2], weights.back());
  }

 private:
  struct UnitNames {
    std::string convolution;
    std::string norm;
  };

  Unit add_unit(const UnitNames& names, std::int64_t in, std::int64_t out, std::int64_t kernel,
                std::int64_t stride) {
    const Unit unit{weights.size(), statistics.size(), stride, kernel / 2};
    const double limit = std::sqrt(6.0 / static_cast<double>(in * kernel * kernel));
    weights.push_back(uniform_weights({out, in, kernel, kernel}, limit, seed_, weights.size()));
    weights.push_back(at::ones({out}));
    weights.push_back(at::zeros({out}));
    statistics.push_back(at::zeros({out}));
    statistics.push_back(at::ones({out}));
    weight_names.insert(weight_names.end(), {names.convolution + ".weight", names.norm + ".weight",
                                             names.norm + ".bias"});
    statistic_names.insert(statistic_names.end(),
                           {names.norm + ".running_mean", names.norm + ".running_var"});
    return unit;
  }

  std::int64_t add_block(const std::string& name, std::int64_t in, std::int64_t width,
                         std::int64_t stride) {
    const std::int64_t out = plan_.bottleneck ? 4 * width : width;
    const UnitNames first{name + "conv1", name + "bn1"};
    const UnitNames second{name + "conv2", name + "bn2"};
    Block block;
    if (plan_.bottleneck) {
      block.path = {add_unit(first, in, width, 1, 1), add_unit(second, width, width, 3, stride),
                    add_unit({name + "conv3", name + "bn3"}, width, out, 1, 1)};
    } else {
      block.path = {add_unit(first, in, width, 3, stride), add_unit(second, width, out, 3, 1)};
    }
    if (in != out || stride != 1) {
      block.shortcut = {
          add_unit({name + "downsample.0", name + "downsample.1"}, in, out, 1, stride)};
    }
    blocks_.push_back(std::move(block));
    return out;
  }

  at::Tensor apply(const Unit& unit, const at::Tensor& values, const Pass& pass) const {
    const at::Tensor filtered =
        at::conv2d(values, weights[unit.weights], {}, unit.stride, unit.padding);
    return at::batch_norm(filtered, weights[unit.weights + 1], weights[unit.weights + 2],
                          statistics[unit.statistics], statistics[unit.statistics + 1],
                          pass.training, kMomentum, kEpsilon, true);
  }

  std::uint64_t seed_;
  Plan plan_;
  Unit stem_;
  std::vector<Block> blocks_;
};

}  // namespace

std::unique_ptr<Model> make_resnet(const Parameters& parameters, const Shape& shape) {
  return std::make_unique<Resnet>(parameters, shape);
}

// A model as TorchScript: what forward() computes is recorded once, on one image.

namespace jit = torch::jit;

namespace {

// `a.b.weight` is `weight` of the module `b` in the module `a`, made where it is not there yet.
class Modules {
 public:
  Modules()
      : unit_(std::make_shared<jit::CompilationUnit>()),
        root_("__torch__.SpotterNetwork", unit_, false) {}

  jit::Module& root() { return root_; }

  struct Place {
    jit::Module module;
    std::string name;
  };
  Place place_of(const std::string& name) {
    jit::Module module = root_;
    std::size_t at = 0;
    for (std::size_t dot = 0; (dot = name.find('.', at)) != std::string::npos; at = dot + 1) {
      const std::string part = name.substr(at, dot - at);
      if (!module.hasattr(part)) {
        module.register_module(part, jit::Module("__torch__.SpotterLayer", unit_, true));
      }
      module = module.attr(part).toModule();
    }
    return {module, name.substr(at)};
  }

 private:
  std::shared_ptr<jit::CompilationUnit> unit_;
  jit::Module root_;
};

}  // namespace

Result<std::string> torch_script(const Model& model, const Description& description) {
  try {
    const torch::NoGradGuard no_gradients;
    Modules modules;
    for (std::size_t i = 0; i < model.weights.size(); ++i) {
      auto [module, name] = modules.place_of(model.weight_names[i]);
      module.register_parameter(name, model.weights[i], false);
    }
    for (std::size_t i = 0; i < model.statistics.size(); ++i) {
      auto [module, name] = modules.place_of(model.statistic_names[i]);
      module.register_buffer(name, model.statistics[i]);
    }
    const Shape& shape = description.shape;
    const at::Tensor image = at::zeros({1, shape.channels, shape.height, shape.width}, at::kByte);
    const auto forward = [&](jit::Stack stack) -> jit::Stack {
      const at::Tensor images = stack.front().toTensor().to(at::kFloat).div(kBrightest);
      return {model.forward(images, {})};
    };
    const auto traced =
        jit::tracer::trace({image}, forward, [](const at::Tensor&) { return std::string(); }, true,
                           false, &modules.root(), {"images"});
    jit::Module& root = modules.root();
    auto* function = root._ivalue()->compilation_unit()->create_function(
        c10::QualifiedName(*root.type()->name(), "forward"), traced.first->graph);
    root.type()->addMethod(function);
    std::ostringstream stream;
    const Metadata metadata = describe(description);
    root.save(stream, {metadata.begin(), metadata.end()});
    return std::move(stream).str();
  } catch (const std::exception& error) {  // libtorch knows no other way to say it
    return failure(std::string("libtorch cannot write TorchScript: ") + error.what());
  }
}

}  // namespace spotter::train
