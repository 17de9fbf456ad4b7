// The multi-layer perceptron of the hyper-parameter example: Dense 512 relu, then each hidden layer
// with activation and dropout, then 10 classes with softmax. The only header in front of libtorch;
// it includes none of it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "agent/wire/result.hpp"
#include "trainer/mnist.hpp"
#include "trainer/parameters.hpp"

namespace spotter::train {

struct Score {
  double loss_sum = 0;  // over the examples, not their mean: sums can be continued
  std::uint64_t correct = 0;
  std::uint64_t count = 0;
};

// Deterministic: the same parameters, data, number of threads and libtorch on the same kind of CPU
// give the same bits.
class Mlp {
 public:
  // Weights are drawn from the seed (Glorot uniform; biases are zero).
  Mlp(const Parameters& parameters, unsigned threads);
  ~Mlp();
  Mlp(const Mlp&) = delete;
  Mlp& operator=(const Mlp&) = delete;

  // One optimizer step on the examples that `indices` names. `step` (from 0) selects the dropout
  // masks.
  Score train(const Examples& examples, std::span<const std::uint32_t> indices, std::uint64_t step);

  // Without dropout, over all of `examples`.
  Score evaluate(const Examples& examples);

  // The weights as they stand in result/weights.bin: "SPOTTERW", then little-endian: u32 version 1,
  // u32 number of tensors, then each tensor: u32 dimensions, u64 sizes, float32 values. Order:
  // weight (out x in) and bias of each layer, from the input on.
  std::string weights() const;
  Result<void> set_weights(std::string_view bytes);

  // The optimizer's own memory, in libtorch's archive format.
  std::string optimizer_state() const;
  Result<void> set_optimizer_state(const std::string& bytes);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace spotter::train
