#include <array>
#include <cmath>

#include "trainer/reference/model.hpp"

namespace spotter::train {

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

}  // namespace spotter::train
