#include "trainer/mlp.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <torch/optim.h>
#include <torch/serialize.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <sstream>

#include "trainer/order.hpp"

namespace spotter::train {

static_assert(std::endian::native == std::endian::little, "weights.bin is little-endian");

namespace {

constexpr std::uint32_t kFirstLayer = 512;
constexpr std::string_view kMagic = "SPOTTERW";
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kEvaluationBatch = 1000;

// libtorch sets its own threads only; those of an OpenBLAS on pthreads decide how products are
// split, so they are part of what makes a run repeatable.
void set_threads(unsigned threads) {
  at::set_num_threads(static_cast<int>(threads));
  using SetThreads = void (*)(int);
  if (void* found = ::dlsym(RTLD_DEFAULT, "openblas_set_num_threads")) {
    reinterpret_cast<SetThreads>(found)(static_cast<int>(threads));
  }
}

struct Layer {
  at::Tensor weight;  // out x in
  at::Tensor bias;
};

Layer make_layer(std::uint32_t in, std::uint32_t out, std::uint64_t seed, std::uint64_t number) {
  Layer layer{at::empty({out, in}), at::zeros({out})};
  Sequence random(sequence_seed(seed, Purpose::Weights, number));
  const double limit = std::sqrt(6.0 / (in + out));
  float* values = layer.weight.data_ptr<float>();
  for (std::int64_t i = 0; i < layer.weight.numel(); ++i) {
    values[i] = static_cast<float>((2 * random.unit() - 1) * limit);
  }
  layer.weight.set_requires_grad(true);
  layer.bias.set_requires_grad(true);
  return layer;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const Parameters& parameters,
                                                        std::vector<at::Tensor> tensors) {
  const double rate = parameters.learning_rate;
  switch (parameters.optimizer) {
    case Optimizer::Adam:
      return std::make_unique<torch::optim::Adam>(std::move(tensors),
                                                  torch::optim::AdamOptions(rate).eps(1e-7));
    case Optimizer::Sgd:
      return std::make_unique<torch::optim::SGD>(std::move(tensors),
                                                 torch::optim::SGDOptions(rate));
    case Optimizer::RmsProp:
      break;
  }
  // Keras' constants, since the example is Keras'.
  return std::make_unique<torch::optim::RMSprop>(
      std::move(tensors), torch::optim::RMSpropOptions(rate).alpha(0.9).eps(1e-7));
}

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

void append(std::string& bytes, const void* data, std::size_t size) {
  bytes.append(static_cast<const char*>(data), size);
}

template <class Number>
void append(std::string& bytes, Number number) {
  append(bytes, &number, sizeof number);
}

}  // namespace

struct Mlp::Parts {
  Parameters parameters;
  std::vector<Layer> layers;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  at::Tensor images;  // the batch, reused
  at::Tensor labels;

  std::vector<at::Tensor> tensors() const {
    std::vector<at::Tensor> all;
    for (const auto& layer : layers) {
      all.push_back(layer.weight);
      all.push_back(layer.bias);
    }
    return all;
  }

  // Puts the chosen examples into the batch, pixels as 0..1.
  template <class IndexOf>
  void load(const Examples& examples, std::uint32_t count, IndexOf index_of) {
    if (!images.defined() || images.size(0) != count) {
      images = at::empty({count, kPixels});
      labels = at::empty({count}, at::kLong);
    }
    float* image = images.data_ptr<float>();
    auto* label = labels.data_ptr<std::int64_t>();
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t index = index_of(i);
      const std::uint8_t* pixels = examples.images.data() + std::size_t{index} * kPixels;
      for (std::uint32_t p = 0; p < kPixels; ++p) *image++ = static_cast<float>(pixels[p]) / 255.0F;
      label[i] = examples.labels[index];
    }
  }

  // Log-probabilities of the batch. A generator: with dropout.
  at::Tensor forward(const at::Generator* dropout) const {
    at::Tensor values = images;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      values = at::linear(values, layers[i].weight, layers[i].bias);
      if (i + 1 == layers.size()) break;
      values = activate(values, i == 0 ? Activation::Relu : parameters.activate_fn);
      if (i == 0 || !dropout || parameters.dropout_rate == 0) continue;
      const double keep = 1 - parameters.dropout_rate;
      values = values * at::empty_like(values).bernoulli_(keep, *dropout).div_(keep);
    }
    return at::log_softmax(values, 1);
  }

  Score score(const at::Tensor& log_probabilities, double loss_mean) const {
    const auto count = static_cast<std::uint64_t>(labels.size(0));
    const auto hits = at::argmax(log_probabilities, 1).eq(labels).sum().item<std::int64_t>();
    return {loss_mean * static_cast<double>(count), static_cast<std::uint64_t>(hits), count};
  }
};

Mlp::Mlp(const Parameters& parameters, unsigned threads) : parts_(std::make_unique<Parts>()) {
  set_threads(threads);
  parts_->parameters = parameters;
  std::vector<std::uint32_t> sizes = {kPixels, kFirstLayer};
  sizes.insert(sizes.end(), parameters.hidden_nodes.begin(), parameters.hidden_nodes.end());
  sizes.push_back(kClasses);
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    parts_->layers.push_back(make_layer(sizes[i], sizes[i + 1], parameters.seed, i));
  }
  parts_->optimizer = make_optimizer(parameters, parts_->tensors());
}

Mlp::~Mlp() = default;

Score Mlp::train(const Examples& examples, std::span<const std::uint32_t> indices,
                 std::uint64_t step) {
  auto& parts = *parts_;
  parts.load(examples, static_cast<std::uint32_t>(indices.size()),
             [&](std::uint32_t i) { return indices[i]; });
  const auto seed = sequence_seed(parts.parameters.seed, Purpose::Dropout, step);
  const at::Generator dropout = at::detail::createCPUGenerator(seed);
  parts.optimizer->zero_grad();
  const at::Tensor output = parts.forward(&dropout);
  const at::Tensor loss = at::nll_loss(output, parts.labels);
  loss.backward();
  parts.optimizer->step();
  return parts.score(output.detach(), loss.item<double>());
}

Score Mlp::evaluate(const Examples& examples) {
  const c10::InferenceMode no_gradients;
  Score total;
  for (std::uint32_t at = 0; at < examples.count; at += kEvaluationBatch) {
    Parts batch{parts_->parameters, parts_->layers, nullptr, {}, {}};
    batch.load(examples, std::min(kEvaluationBatch, examples.count - at),
               [&](std::uint32_t i) { return at + i; });
    const at::Tensor output = batch.forward(nullptr);
    const Score score = batch.score(output, at::nll_loss(output, batch.labels).item<double>());
    total.loss_sum += score.loss_sum;
    total.correct += score.correct;
    total.count += score.count;
  }
  return total;
}

std::string Mlp::weights() const {
  std::string bytes(kMagic);
  const auto tensors = parts_->tensors();
  append(bytes, kVersion);
  append(bytes, static_cast<std::uint32_t>(tensors.size()));
  for (const auto& tensor : tensors) {
    append(bytes, static_cast<std::uint32_t>(tensor.dim()));
    for (const auto size : tensor.sizes()) append(bytes, static_cast<std::uint64_t>(size));
    append(bytes, tensor.data_ptr<float>(),
           static_cast<std::size_t>(tensor.numel()) * sizeof(float));
  }
  return bytes;
}

Result<void> Mlp::set_weights(std::string_view bytes) {
  // Same shapes: everything but the values is the same, so they can be told apart by comparing the
  // rest.
  const std::string own = weights();
  if (bytes.size() != own.size()) return failure("the weights belong to another network");
  std::size_t at = kMagic.size() + 2 * sizeof(std::uint32_t);
  bool same = bytes.substr(0, at) == std::string_view(own).substr(0, at);
  const torch::NoGradGuard no_gradients;
  for (const auto& tensor : parts_->tensors()) {
    const std::size_t header =
        sizeof(std::uint32_t) + static_cast<std::size_t>(tensor.dim()) * sizeof(std::uint64_t);
    same = same && bytes.substr(at, header) == std::string_view(own).substr(at, header);
    if (!same) return failure("the weights belong to another network");
    at += header;
    const std::size_t size = static_cast<std::size_t>(tensor.numel()) * sizeof(float);
    std::memcpy(tensor.data_ptr<float>(), bytes.data() + at, size);
    at += size;
  }
  return {};
}

std::string Mlp::optimizer_state() const {
  std::ostringstream stream;
  torch::save(*parts_->optimizer, stream);
  return std::move(stream).str();
}

Result<void> Mlp::set_optimizer_state(const std::string& bytes) {
  try {
    std::istringstream stream(bytes);
    torch::load(*parts_->optimizer, stream);
  } catch (const std::exception& error) {  // libtorch knows no other way to say it
    return failure(std::string("libtorch cannot read the optimizer's state: ") + error.what());
  }
  return {};
}

}  // namespace spotter::train
