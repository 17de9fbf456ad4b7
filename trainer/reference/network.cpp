#include "trainer/reference/network.hpp"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <torch/cuda.h>
#include <torch/optim.h>
#include <torch/serialize.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <sstream>
#include <thread>

#include "trainer/reference/description.hpp"
#include "trainer/reference/feed.hpp"
#include "trainer/reference/mixed_precision.hpp"
#include "trainer/reference/model.hpp"

namespace spotter::train {

namespace {

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

// CUDA has quicker ways that do not give the same bits twice
// (https://pytorch.org/docs/stable/notes/randomness.html).
void use_deterministic_algorithms() {
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, false);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
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

std::unique_ptr<Model> make_model(const Parameters& parameters, const Shape& shape) {
  return parameters.architecture == Architecture::Mlp ? make_mlp(parameters, shape)
                                                      : make_resnet(parameters, shape);
}

struct Batch {
  at::Tensor images;  // n x channels x height x width, bytes
  at::Tensor labels;  // n
};

template <class IndexOf>
Batch make_batch(const Examples& examples, const Shape& shape, std::uint32_t count,
                 IndexOf index_of) {
  Batch batch{at::empty({count, shape.channels, shape.height, shape.width}, at::kByte),
              at::empty({count}, at::kLong)};
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

// The model on one device.
struct Replica {
  at::Device device;
  std::unique_ptr<Model> model;

  Replica(const std::string& name, std::unique_ptr<Model> given)
      : device(name), model(std::move(given)) {
    const torch::NoGradGuard no_gradients;
    for (auto& tensor : model->statistics) tensor.set_data(tensor.to(device));
    for (auto& tensor : model->weights) {
      tensor.set_data(tensor.to(device));
      tensor.set_requires_grad(true);
    }
  }

  // What its part of a batch gives, and, when training, the gradients: those of the mean over
  // `share` times the whole batch.
  Score run(const Batch& batch, const Pass& pass, double share) const {
    const at::Tensor labels = batch.labels.to(device);
    const at::Tensor output = at::log_softmax(forward(batch.images, pass).to(at::kFloat), 1);
    const at::Tensor loss = at::nll_loss(output, labels);
    if (pass.training) (loss * share).backward();
    const auto count = static_cast<std::uint64_t>(labels.size(0));
    const auto hits = at::argmax(output.detach(), 1).eq(labels).sum().item<std::int64_t>();
    return {loss.item<double>() * static_cast<double>(count), static_cast<std::uint64_t>(hits),
            count};
  }

  // Only this way is in mixed precision; back it goes with the types that it went with.
  at::Tensor forward(const at::Tensor& bytes, const Pass& pass) const {
    const at::Tensor images = bytes.to(device).to(at::kFloat).div_(kBrightest);
    const MixedPrecision precision(device, pass.mixed);
    return model->forward(images, pass);
  }
};

void add(Score& total, const Score& part) {
  total.loss_sum += part.loss_sum;
  total.correct += part.correct;
  total.count += part.count;
}

}  // namespace

struct Network::Parts {
  Parameters parameters;
  Shape shape;
  unsigned threads = 1;
  std::vector<Replica> replicas;  // the first one has the truth
  std::unique_ptr<torch::optim::Optimizer> optimizer;

  std::vector<at::Tensor> tensors() const {
    std::vector<at::Tensor> all = replicas.front().model->weights;
    const auto& more = replicas.front().model->statistics;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all = replicas.front().model->weight_names;
    const auto& more = replicas.front().model->statistic_names;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  // The others begin each step with what the first one has learned.
  void spread() {
    const torch::NoGradGuard no_gradients;
    const Model& first = *replicas.front().model;
    for (std::size_t i = 1; i < replicas.size(); ++i) {
      Model& other = *replicas[i].model;
      for (std::size_t t = 0; t < first.weights.size(); ++t) {
        other.weights[t].copy_(first.weights[t]);
        other.weights[t].mutable_grad().reset();
      }
      for (std::size_t t = 0; t < first.statistics.size(); ++t) {
        other.statistics[t].copy_(first.statistics[t]);
      }
    }
  }

  // In the devices' order: a sum of floats depends on it.
  void gather() {
    const torch::NoGradGuard no_gradients;
    const Model& first = *replicas.front().model;
    for (std::size_t i = 1; i < replicas.size(); ++i) {
      const Model& other = *replicas[i].model;
      for (std::size_t t = 0; t < first.weights.size(); ++t) {
        const at::Tensor& gradient = other.weights[t].grad();
        if (gradient.defined()) {
          first.weights[t].mutable_grad().add_(gradient.to(replicas.front().device));
        }
      }
    }
  }

  Score run_all(const Batch& batch, std::uint64_t step) {
    const auto count = batch.labels.size(0);
    const auto parts = std::min<std::int64_t>(count, static_cast<std::int64_t>(replicas.size()));
    std::vector<Score> scores(static_cast<std::size_t>(parts));
    std::vector<std::exception_ptr> errors(scores.size());
    const auto run = [&](std::int64_t part) {
      const std::int64_t from = count * part / parts;
      const std::int64_t to = count * (part + 1) / parts;
      const auto number = static_cast<std::uint64_t>(part);
      const Pass pass{
          true, sequence_seed(parameters.seed, Purpose::Dropout, step * replicas.size() + number),
          parameters.amp};
      const double share = static_cast<double>(to - from) / static_cast<double>(count);
      try {
        scores[number] = replicas[number].run(
            {batch.images.slice(0, from, to), batch.labels.slice(0, from, to)}, pass, share);
      } catch (...) {
        errors[number] = std::current_exception();
      }
    };
    std::vector<std::jthread> others;
    for (std::int64_t part = 1; part < parts; ++part) {
      others.emplace_back([&, part] {
        set_threads(threads);  // OpenMP keeps the number for each thread apart
        run(part);
      });
    }
    run(0);
    others.clear();
    Score total;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (errors[i]) std::rethrow_exception(errors[i]);
      add(total, scores[i]);
    }
    return total;
  }
};

at::Tensor uniform_weights(at::IntArrayRef sizes, double limit, std::uint64_t seed,
                           std::uint64_t number) {
  at::Tensor tensor = at::empty(sizes);
  Sequence random(sequence_seed(seed, Purpose::Weights, number));
  float* values = tensor.data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    values[i] = static_cast<float>((2 * random.unit() - 1) * limit);
  }
  return tensor;
}

Result<std::vector<std::string>> find_devices(const Hardware& hardware) {
  const auto gpus = torch::cuda::is_available() ? torch::cuda::device_count() : 0;
  std::vector<std::string> devices = hardware.devices;
  if (devices.empty() && gpus == 0) devices = {"cpu"};
  for (std::size_t i = 0; devices.size() < gpus && hardware.devices.empty(); ++i) {
    devices.push_back("cuda:" + std::to_string(i));
  }
  for (std::string& name : devices) {
    if (name == "cpu") continue;
    if (name == "cuda") name = "cuda:0";
    std::size_t number = 0;
    const bool known = std::sscanf(name.c_str(), "cuda:%zu", &number) == 1;
    if (!known) return failure("there is no device `" + name + "`: cpu, cuda or cuda:N are right");
    if (number >= gpus) {
      return failure(name + " is not there: libtorch sees " + std::to_string(gpus) + " GPUs");
    }
  }
  return devices;
}

Network::Network(const Parameters& parameters, const Shape& shape, const Hardware& hardware)
    : parts_(std::make_unique<Parts>()) {
  set_threads(hardware.threads);
  use_deterministic_algorithms();
  parts_->parameters = parameters;
  parts_->shape = shape;
  parts_->threads = hardware.threads;
  for (const std::string& device : hardware.devices) {
    parts_->replicas.emplace_back(device, make_model(parameters, shape));
  }
  parts_->optimizer = make_optimizer(parameters, parts_->replicas.front().model->weights);
}

Network::~Network() = default;

Score Network::train(const Examples& examples, std::span<const std::uint32_t> indices,
                     std::uint64_t step) {
  auto& parts = *parts_;
  const Batch batch = make_batch(examples, parts.shape, static_cast<std::uint32_t>(indices.size()),
                                 [&](std::uint32_t i) { return indices[i]; });
  parts.spread();
  parts.optimizer->zero_grad();
  const Score score = parts.run_all(batch, step);
  parts.gather();
  parts.optimizer->step();
  return score;
}

Score Network::evaluate(const Examples& examples) {
  const torch::NoGradGuard no_gradients;
  Score total;
  for (std::uint32_t at = 0; at < examples.count; at += kEvaluationBatch) {
    const Batch batch =
        make_batch(examples, parts_->shape, std::min(kEvaluationBatch, examples.count - at),
                   [&](std::uint32_t i) { return at + i; });
    add(total, parts_->replicas.front().run(batch, {}, 1));
  }
  return total;
}

std::string Network::weights() const {
  const auto names = parts_->names();
  std::vector<at::Tensor> values;  // keeps the bytes that the rest points into
  std::vector<NamedTensor> tensors;
  for (const auto& tensor : parts_->tensors()) {
    const auto& value = values.emplace_back(tensor.detach().to(at::kCPU).contiguous());
    tensors.push_back({names[tensors.size()],
                       {value.sizes().begin(), value.sizes().end()},
                       {reinterpret_cast<const char*>(value.data_ptr<float>()),
                        static_cast<std::size_t>(value.nbytes())}});
  }
  return write_safetensors(tensors, describe({parts_->parameters, parts_->shape}));
}

Result<void> Network::set_weights(std::string_view bytes) {
  const auto read = read_safetensors(bytes);
  if (!read) return tl::unexpected(read.error());
  std::map<std::string_view, const NamedTensor*> by_name;
  for (const NamedTensor& tensor : read->tensors) by_name[tensor.name] = &tensor;
  const auto names = parts_->names();
  const auto tensors = parts_->tensors();
  bool same = by_name.size() == names.size();
  for (std::size_t i = 0; same && i < names.size(); ++i) {
    const auto found = by_name.find(names[i]);
    same = found != by_name.end() && std::ranges::equal(found->second->shape, tensors[i].sizes());
  }
  if (!same) return failure("the weights belong to another network");
  const torch::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string_view given = by_name[names[i]]->bytes;
    const at::Tensor values = at::empty(tensors[i].sizes());
    std::memcpy(values.data_ptr<float>(), given.data(), given.size());
    tensors[i].copy_(values);
  }
  return {};
}

Result<std::string> Network::script() const {
  const torch::NoGradGuard no_gradients;
  const auto model = make_model(parts_->parameters, parts_->shape);
  const Model& trained = *parts_->replicas.front().model;
  for (std::size_t i = 0; i < model->weights.size(); ++i)
    model->weights[i].copy_(trained.weights[i]);
  for (std::size_t i = 0; i < model->statistics.size(); ++i) {
    model->statistics[i].copy_(trained.statistics[i]);
  }
  return torch_script(*model, {parts_->parameters, parts_->shape});
}

std::string Network::optimizer_state() const {
  std::ostringstream stream;
  torch::save(*parts_->optimizer, stream);
  return std::move(stream).str();
}

Result<void> Network::set_optimizer_state(const std::string& bytes) {
  try {
    std::istringstream stream(bytes);
    torch::load(*parts_->optimizer, stream);
  } catch (const std::exception& error) {  // libtorch knows no other way to say it
    return failure(std::string("libtorch cannot read the optimizer's state: ") + error.what());
  }
  return {};
}

}  // namespace spotter::train
