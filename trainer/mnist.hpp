// The MNIST files, read and validated whole. Format: http://yann.lecun.com/exdb/mnist/ (idx:
// big-endian magic 0x00000803 for images, 0x00000801 for labels, then the sizes, then bytes).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "agent/wire/result.hpp"

namespace spotter::train {

inline constexpr std::uint32_t kPixels = 28 * 28;
inline constexpr std::uint32_t kClasses = 10;

struct Examples {
  std::vector<std::uint8_t> images;  // count x kPixels, 0 white .. 255 black
  std::vector<std::uint8_t> labels;  // count, 0..9
  std::uint32_t count = 0;
};

struct Mnist {
  Examples training;
  Examples test;
  std::string sum;  // XXH3 of all of it: a resumed run must see the same data
};

// Reads {train,t10k}-{images-idx3,labels-idx1}-ubyte. The error names the file, what is wrong with
// it, and how to get good ones.
Result<Mnist> read_mnist(const std::filesystem::path& directory);

}  // namespace spotter::train
