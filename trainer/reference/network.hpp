// A network being trained. The only header in front of libtorch; it includes none of it.
#pragma once

#include <memory>

#include "trainer/reference/dataset.hpp"
#include "trainer/reference/parameters.hpp"

namespace spotter::train {

struct Score {
  double loss_sum = 0;  // over the examples, not their mean: sums can be continued
  std::uint64_t correct = 0;
  std::uint64_t count = 0;
};

struct Hardware {
  unsigned threads = 1;       // of the CPU
  std::string device;         // "cpu", "cuda:0"; empty: the first GPU, or the CPU
  bool deterministic = true;  // false: a GPU's quickest ways, which give other bits each time
};

// The device that was asked for, or why it cannot be had.
Result<std::string> find_device(const std::string& asked);

// Deterministic: the same parameters, data, number of threads, and libtorch on the same kind of
// processor give the same bits, unless `hardware.deterministic` is false.
class Network : Pinned {
 public:
  // Weights are drawn from the seed. `hardware.device` is one that find_device() gave.
  Network(const Parameters& parameters, const Shape& shape, const Hardware& hardware);
  ~Network();

  // One optimizer step on the examples that `indices` names. `step` (from 0) selects the dropout
  // masks. A GPU goes on with it behind this call.
  void train(const Examples& examples, std::span<const std::uint32_t> indices, std::uint64_t step);

  // The scores of the steps since the last call. A GPU idles from when they are read until its next
  // step.
  std::vector<Score> scores();
  bool is_behind() const;  // on a GPU

  // Without dropout, over all of `examples`.
  Score evaluate(const Examples& examples);

  // The weights as they stand in result/model.safetensors, by the names that PyTorch's own models
  // give them (network.cpp), with the description of the network.
  std::string weights() const;
  // Only the tensors count: their names and shapes must be this network's.
  Result<void> set_weights(std::string_view bytes);

  // result/model.pt: the same as TorchScript, for torch.jit.load(). forward() takes images as bytes
  // or floats of 0 .. 255 (n x channels x height x width) and gives n x classes logits. The
  // description is its extra files.
  Result<std::string> script() const;

  // The optimizer's memory from step to step, as safetensors.
  std::string optimizer_state() const;
  Result<void> set_optimizer_state(std::string_view bytes);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace spotter::train
