#include "trainer/reference/network.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <dlfcn.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/cuda.h>
#include <torch/script.h>
#include <torch/serialize.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>

#include "trainer/reference/feed.hpp"

namespace spotter::train {
namespace {

// The computation of a network, in libtorch's terms; the rest of this file trains it.

// One way through the model. Training: with dropout, and batch norms learn.
struct Pass {
  bool training = false;
  std::uint64_t dropout_seed = 0;
  bool mixed = false;  // in bfloat16, where autocast says so
};

struct Named {
  std::string name;
  at::Tensor tensor;
};

std::vector<at::Tensor> tensors_of(const std::vector<Named>& all) {
  std::vector<at::Tensor> tensors;
  for (const Named& each : all) tensors.push_back(each.tensor);
  return tensors;
}

class Model {
 public:
  virtual ~Model() = default;

  // images: n x channels x height x width, float32, 0..1. Gives n x kClasses logits.
  virtual at::Tensor forward(const at::Tensor& images, const Pass& pass) const = 0;

  // The model's own tensors, shared with it.
  std::vector<Named> weights;     // learned by gradient
  std::vector<Named> statistics;  // means and variances of batch norms
};

// Uniform in +-limit, drawn from the seed; `number` tells one tensor of the model from the others.
at::Tensor uniform_weights(at::IntArrayRef sizes, double limit, std::uint64_t seed,
                           std::uint64_t number);

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

// The multi-layer perceptron of the hyper-parameter example: Dense 512 relu, then each hidden layer
// with activation and dropout, Dropout(0.2), then the classes. Weights Glorot uniform, biases zero
// (Keras). Names as in torch.nn.Sequential(Flatten, Linear, ReLU, then Linear, activation and
// Dropout for each hidden layer, Dropout, Linear).
class Mlp : public Model {
 public:
  Mlp(const Parameters& parameters, const Shape& shape) : parameters_(parameters) {
    std::vector<std::int64_t> sizes = {static_cast<std::int64_t>(shape.pixels()), kFirstLayer};
    sizes.insert(sizes.end(), parameters.hidden_nodes.begin(), parameters.hidden_nodes.end());
    sizes.push_back(kClasses);
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
      const double limit = std::sqrt(6.0 / static_cast<double>(sizes[i] + sizes[i + 1]));
      // Behind Flatten come Linear and ReLU, three modules for each hidden layer, the last Dropout.
      const bool last = i + 2 == sizes.size();
      const std::string name = std::to_string(i == 0 ? 1 : 3 * i + (last ? 1 : 0));
      weights.push_back(
          {name + ".weight", uniform_weights({sizes[i + 1], sizes[i]}, limit, parameters.seed, i)});
      weights.push_back({name + ".bias", at::zeros({sizes[i + 1]})});
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
      values = at::linear(values, weights[i].tensor, weights[i + 1].tensor);
      if (last) break;
      values = activate(values, i == 0 ? Activation::Relu : parameters_.activate_fn);
      if (i > 0) values = drop(values, parameters_.dropout_rate);
    }
    return values;
  }

 private:
  Parameters parameters_;
};

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

// Residual networks (He et al., Deep Residual Learning for Image Recognition, 2015): resnet50 of
// bottlenecks and resnet18 of basic blocks with the stem of the spot example (7 x 7 / 2, pooled),
// resnet8 the smallest of the paper's own for CIFAR-10 (stem 3 x 3, 16 channels). Weights He
// uniform. Names as in torchvision.models.resnet50 and resnet18, which can load them.
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
    weights.push_back({"fc.weight", uniform_weights({kClasses, in}, limit, seed_, weights.size())});
    weights.push_back({"fc.bias", at::zeros({kClasses})});
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
    return at::linear(values, weights[weights.size() - 2].tensor, weights.back().tensor);
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
    weights.push_back({names.convolution + ".weight",
                       uniform_weights({out, in, kernel, kernel}, limit, seed_, weights.size())});
    weights.push_back({names.norm + ".weight", at::ones({out})});
    weights.push_back({names.norm + ".bias", at::zeros({out})});
    statistics.push_back({names.norm + ".running_mean", at::zeros({out})});
    statistics.push_back({names.norm + ".running_var", at::ones({out})});
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
        at::conv2d(values, weights[unit.weights].tensor, {}, unit.stride, unit.padding);
    return at::batch_norm(filtered, weights[unit.weights + 1].tensor,
                          weights[unit.weights + 2].tensor, statistics[unit.statistics].tensor,
                          statistics[unit.statistics + 1].tensor, pass.training, kMomentum,
                          kEpsilon, true);
  }

  std::uint64_t seed_;
  Plan plan_;
  Unit stem_;
  std::vector<Block> blocks_;
};

// A model as TorchScript: what forward() computes is recorded once, on one image.

namespace jit = torch::jit;

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
      if (!module.hasattr(part))
        module.register_module(part, jit::Module("__torch__.SpotterLayer", unit_, true));
      module = module.attr(part).toModule();
    }
    return {module, name.substr(at)};
  }

 private:
  std::shared_ptr<jit::CompilationUnit> unit_;
  jit::Module root_;
};

// What stands in a file of weights, so that whoever has only the file can use it: `parameters` and
// `input` as JSON: {"channels", "height", "width", "divide_by"}: images are bytes, divided by that.
// `format` is what Hugging Face's readers ask for.
Metadata describe(const Parameters& parameters, const Shape& shape) {
  const nlohmann::json input = {{"channels", shape.channels},
                                {"height", shape.height},
                                {"width", shape.width},
                                {"divide_by", kBrightest}};
  return {{"format", "pt"}, {"input", input.dump()}, {"parameters", to_json(parameters).dump()}};
}

// The model as TorchScript (Network::script()); its tensors are on the CPU.
Result<std::string> torch_script(const Model& model, const Parameters& parameters,
                                 const Shape& shape) {
  try {
    const torch::NoGradGuard no_gradients;
    Modules modules;
    for (const Named& each : model.weights) {
      auto [module, name] = modules.place_of(each.name);
      module.register_parameter(name, each.tensor, false);
    }
    for (const Named& each : model.statistics) {
      auto [module, name] = modules.place_of(each.name);
      module.register_buffer(name, each.tensor);
    }
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
    const Metadata metadata = describe(parameters, shape);
    root.save(stream, {metadata.begin(), metadata.end()});
    return std::move(stream).str();
  } catch (const std::exception& error) {  // libtorch knows no other way to say it
    return failure(std::string("libtorch cannot write TorchScript: ") + error.what());
  }
}

// PyTorch's autocast, for one scope.

// While it lives, this thread computes products and convolutions in bfloat16, as
// torch.autocast(device, torch.bfloat16) does. Weights, gradients and the optimizer stay float32;
// so wide an exponent needs no scaling of the loss.
class MixedPrecision : Pinned {
 public:
  MixedPrecision(const at::Device& device, bool on)
      : key_(at::autocast::get_autocast_dispatch_key_from_device_type(device.type())),
        excluded_(c10::impl::tls_is_dispatch_key_excluded(key_)),
        cached_(at::autocast::is_autocast_cache_enabled()) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
    at::autocast::set_autocast_dtype(device.type(), at::kBFloat16);
#else
    at::autocast::set_autocast_gpu_dtype(at::kBFloat16);  // the CPU's is this by default
#endif
    // A pass uses each weight once; the cache would have to be emptied before the next step.
    at::autocast::set_autocast_cache_enabled(false);
    c10::impl::tls_set_dispatch_key_excluded(key_, !on);
  }
  ~MixedPrecision() {
    c10::impl::tls_set_dispatch_key_excluded(key_, excluded_);
    at::autocast::set_autocast_cache_enabled(cached_);
  }

 private:
  at::DispatchKey key_;
  bool excluded_;
  bool cached_;
};

constexpr std::uint32_t kEvaluationBatch = 1000;

// libtorch sets its own threads only; those of an OpenBLAS on pthreads decide how products are
// split, so they are part of what makes a run repeatable.
void set_threads(unsigned threads) {
  at::set_num_threads(static_cast<int>(threads));
  using SetThreads = void (*)(int);
  if (void* found = ::dlsym(RTLD_DEFAULT, "openblas_set_num_threads"))
    reinterpret_cast<SetThreads>(found)(static_cast<int>(threads));
}

// CUDA has quicker ways that do not give the same bits twice
// (https://pytorch.org/docs/stable/notes/randomness.html).
void use_algorithms(bool deterministic) {
  if (deterministic) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(deterministic, false);
  context.setDeterministicCuDNN(deterministic);
  context.setBenchmarkCuDNN(!deterministic);
}

using Tensors = std::vector<at::Tensor>;

// The arithmetic of torch::optim, in its order and so to its bits, but each operation is one call
// for all tensors: a GPU computes hundreds of small ones sooner than the CPU asks for them.
class Optimization {
 public:
  Optimization(const Parameters& parameters, Tensors weights)
      : kind_(parameters.optimizer), rate_(parameters.learning_rate), weights_(std::move(weights)) {
    const auto zeros = [&] {
      Tensors all;
      for (const auto& each : weights_) all.push_back(at::zeros_like(each.detach()));
      return all;
    };
    if (kind_ == Optimizer::Adam) memory_["exp_avg"] = zeros();
    if (kind_ != Optimizer::Sgd) memory_["square_avg"] = zeros();
  }

  // With the weights' gradients, which are gone then. `number`: of the step, from 0.
  void step(std::uint64_t number) {
    const torch::NoGradGuard no_gradients;
    Tensors gradients;
    for (auto& each : weights_) gradients.push_back(std::exchange(each.mutable_grad(), {}));
    if (kind_ == Optimizer::Sgd) return at::_foreach_add_(weights_, gradients, -rate_);
    Tensors& squares = memory_.at("square_avg");
    const double kept = kind_ == Optimizer::Adam ? 0.999 : 0.9;  // Keras' constants
    at::_foreach_mul_(squares, kept);
    at::_foreach_addcmul_(squares, gradients, gradients, 1 - kept);
    Tensors divisors = at::_foreach_sqrt(squares);
    double rate = rate_;
    if (kind_ == Optimizer::Adam) {
      constexpr double kFirst = 0.9;
      const auto count = static_cast<double>(number + 1);
      Tensors& averages = memory_.at("exp_avg");
      at::_foreach_mul_(averages, kFirst);
      at::_foreach_add_(averages, gradients, 1 - kFirst);
      gradients = averages;
      at::_foreach_div_(divisors, std::sqrt(1 - std::pow(kept, count)));
      rate /= 1 - std::pow(kFirst, count);
    }
    at::_foreach_add_(divisors, 1e-7);
    at::_foreach_addcdiv_(weights_, gradients, divisors, -rate);
  }

  // Its memory from step to step: a tensor for each weight, by names of its own.
  const std::map<std::string, Tensors>& memory() const { return memory_; }

 private:
  Optimizer kind_;
  double rate_;
  Tensors weights_;
  std::map<std::string, Tensors> memory_;
};

std::unique_ptr<Model> make_model(const Parameters& parameters, const Shape& shape) {
  if (parameters.architecture == Architecture::Mlp) return std::make_unique<Mlp>(parameters, shape);
  return std::make_unique<Resnet>(parameters, shape);
}

struct Batch {
  at::Tensor images;  // n x channels x height x width, bytes
  at::Tensor labels;  // n
};

// `pinned`: a GPU fetches it behind what it computes, from memory that does not move.
template <class IndexOf>
Batch make_batch(const Examples& examples, const Shape& shape, bool pinned, std::uint32_t count,
                 IndexOf index_of) {
  const auto of = [&](at::ScalarType type) {
    return at::TensorOptions(type).pinned_memory(pinned);
  };
  Batch batch{at::empty({count, shape.channels, shape.height, shape.width}, of(at::kByte)),
              at::empty({count}, of(at::kLong))};
  auto* image = batch.images.data_ptr<std::uint8_t>();
  auto* label = batch.labels.data_ptr<std::int64_t>();
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t index = index_of(i);
    std::memcpy(image, examples.images.data() + index * shape.pixels(), shape.pixels());
    image += shape.pixels();
    label[i] = examples.labels[index];
  }
  return batch;
}

// The sums of a batch where they were computed, perhaps not yet.
struct Scored {
  at::Tensor loss;  // the mean of the examples'
  at::Tensor hits;
  std::uint64_t count = 0;
};

// Waits for them, once for all.
std::vector<Score> read(const std::vector<Scored>& scored) {
  std::vector<Score> scores;
  if (scored.empty()) return scores;
  Tensors losses, hits;
  for (const Scored& each : scored) {
    losses.push_back(each.loss);
    hits.push_back(each.hits);
  }
  const at::Tensor loss = at::stack(losses).to(at::kCPU).to(at::kDouble);
  const at::Tensor hit = at::stack(hits).to(at::kCPU);
  for (std::size_t i = 0; i < scored.size(); ++i)
    scores.push_back({loss.data_ptr<double>()[i] * static_cast<double>(scored[i].count),
                      static_cast<std::uint64_t>(hit.data_ptr<std::int64_t>()[i]),
                      scored[i].count});
  return scores;
}

// The model where it computes.
struct Placed {
  at::Device device;
  at::MemoryFormat layout;
  std::unique_ptr<Model> model;

  Placed(const std::string& name, const Parameters& parameters, const Shape& shape)
      : device(name), model(make_model(parameters, shape)) {
    // A pixel's channels beside each other: quickest on CPUs and GPUs.
    const bool by_pixel = parameters.architecture != Architecture::Mlp;
    layout = by_pixel ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    const torch::NoGradGuard no_gradients;
    for (Named& each : model->statistics) each.tensor.set_data(each.tensor.to(device));
    for (Named& each : model->weights) {
      at::Tensor& tensor = each.tensor;
      const bool is_kernel = tensor.dim() == 4;
      tensor.set_data(
          tensor.to(device).contiguous(is_kernel ? layout : at::MemoryFormat::Contiguous));
      tensor.set_requires_grad(true);
    }
  }

  // Computes the score of a batch and, when training, the gradients of its mean loss. A GPU may
  // still be at it.
  Scored run(const Batch& batch, const Pass& pass) const {
    const at::Tensor labels = batch.labels.to(device, at::kLong, true);
    const at::Tensor output = at::log_softmax(forward(batch.images, pass).to(at::kFloat), 1);
    const at::Tensor loss = at::nll_loss(output, labels);
    if (pass.training) loss.backward();
    return {loss.detach(), at::argmax(output.detach(), 1).eq(labels).sum(),
            static_cast<std::uint64_t>(labels.size(0))};
  }

  // Only this way is in mixed precision; back it goes with the types that it went with.
  at::Tensor forward(const at::Tensor& bytes, const Pass& pass) const {
    const at::Tensor images =
        bytes.to(device, at::kByte, true).to(at::kFloat).div_(kBrightest).contiguous(layout);
    const MixedPrecision precision(device, pass.mixed);
    return model->forward(images, pass);
  }
};

at::Tensor uniform_weights(at::IntArrayRef sizes, double limit, std::uint64_t seed,
                           std::uint64_t number) {
  at::Tensor tensor = at::empty(sizes);
  Sequence random(sequence_seed(seed, Purpose::Weights, number));
  float* values = tensor.data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    values[i] = static_cast<float>((2 * random.unit() - 1) * limit);
  return tensor;
}

}  // namespace

struct Network::Parts {
  Parameters parameters;
  Shape shape;
  Placed placed;
  Optimization optimization;
  std::vector<Scored> scored;  // of steps whose scores are not read yet

  std::vector<Named> tensors() const {
    std::vector<Named> all = placed.model->weights;
    const auto& more = placed.model->statistics;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  // The optimizer's, each by the weight's name and its own: "fc.bias.square_avg".
  std::vector<Named> memory() const {
    std::vector<Named> all;
    for (const auto& [name, tensors] : optimization.memory())
      for (std::size_t i = 0; i < tensors.size(); ++i)
        all.push_back({placed.model->weights[i].name + "." + name, tensors[i]});
    return all;
  }
};

namespace {

std::string written(const std::vector<Named>& all, const Metadata& metadata) {
  Tensors values;  // keeps the bytes that the rest points into
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : all) {
    const auto& value = values.emplace_back(tensor.detach().to(at::kCPU).contiguous());
    named.push_back({name,
                     {value.sizes().begin(), value.sizes().end()},
                     {reinterpret_cast<const char*>(value.data_ptr<float>()),
                      static_cast<std::size_t>(value.nbytes())}});
  }
  return write_safetensors(named, metadata);
}

Result<void> set(const std::vector<Named>& all, std::string_view bytes) {
  std::vector<NamedTensor> read;
  for (const auto& [name, tensor] : all)
    read.push_back({name, {tensor.sizes().begin(), tensor.sizes().end()}, {}});
  TRY(fill(read, bytes));
  const torch::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const at::Tensor values = at::empty(all[i].tensor.sizes());
    std::memcpy(values.data_ptr<float>(), read[i].bytes.data(), read[i].bytes.size());
    all[i].tensor.copy_(values);
  }
  return {};
}

}  // namespace

Result<std::string> find_device(const std::string& asked) {
  const auto gpus = torch::cuda::is_available() ? torch::cuda::device_count() : 0;
  if (asked == "cpu" || (asked.empty() && gpus == 0)) return "cpu";
  const std::string name = asked.empty() || asked == "cuda" ? "cuda:0" : asked;
  std::size_t number = 0;
  const bool known = std::sscanf(name.c_str(), "cuda:%zu", &number) == 1 &&
                     name == "cuda:" + std::to_string(number);
  if (!known) return failure("there is no device `" + name + "`: cpu, cuda or cuda:N are right");
  if (number >= gpus)
    return failure(name + " is not there: libtorch sees " + std::to_string(gpus) + " GPUs");
  return name;
}

Network::Network(const Parameters& parameters, const Shape& shape, const Hardware& hardware) {
  set_threads(hardware.threads);
  use_algorithms(hardware.deterministic);
  Placed placed(hardware.device, parameters, shape);
  Optimization optimization(parameters, tensors_of(placed.model->weights));
  parts_ = std::make_unique<Parts>(
      Parts{parameters, shape, std::move(placed), std::move(optimization), {}});
}

bool Network::is_behind() const { return parts_->placed.device.is_cuda(); }

Network::~Network() = default;

void Network::train(const Examples& examples, std::span<const std::uint32_t> indices,
                    std::uint64_t step) {
  auto& parts = *parts_;
  const Batch batch =
      make_batch(examples, parts.shape, is_behind(), static_cast<std::uint32_t>(indices.size()),
                 [&](std::uint32_t i) { return indices[i]; });
  const std::uint64_t dropout = sequence_seed(parts.parameters.seed, Purpose::Dropout, step);
  parts.scored.push_back(parts.placed.run(batch, {true, dropout, parts.parameters.amp}));
  parts.optimization.step(step);
}

std::vector<Score> Network::scores() { return read(std::exchange(parts_->scored, {})); }

Score Network::evaluate(const Examples& examples) {
  const torch::NoGradGuard no_gradients;
  std::vector<Scored> scored;
  for (std::uint32_t at = 0; at < examples.count; at += kEvaluationBatch) {
    const Batch batch = make_batch(examples, parts_->shape, is_behind(),
                                   std::min(kEvaluationBatch, examples.count - at),
                                   [&](std::uint32_t i) { return at + i; });
    scored.push_back(parts_->placed.run(batch, {}));
  }
  Score total;
  for (const Score& part : read(scored)) {
    total.loss_sum += part.loss_sum;
    total.correct += part.correct;
    total.count += part.count;
  }
  return total;
}

std::string Network::weights() const {
  return written(parts_->tensors(), describe(parts_->parameters, parts_->shape));
}

Result<void> Network::set_weights(std::string_view bytes) { return set(parts_->tensors(), bytes); }

Result<std::string> Network::script() const {
  const torch::NoGradGuard no_gradients;
  const auto model = make_model(parts_->parameters, parts_->shape);
  const Model& trained = *parts_->placed.model;
  for (std::size_t i = 0; i < model->weights.size(); ++i)
    model->weights[i].tensor.copy_(trained.weights[i].tensor);
  for (std::size_t i = 0; i < model->statistics.size(); ++i)
    model->statistics[i].tensor.copy_(trained.statistics[i].tensor);
  return torch_script(*model, parts_->parameters, parts_->shape);
}

std::string Network::optimizer_state() const { return written(parts_->memory(), {}); }

Result<void> Network::set_optimizer_state(std::string_view bytes) {
  return set(parts_->memory(), bytes);
}

}  // namespace spotter::train
