// A data set in MNIST's format, small enough for tests: each class has a bright patch of its own.
#pragma once

#include <cstdint>

#include "tests/trainer/scratch.hpp"
#include "trainer/reference/dataset.hpp"
#include "trainer/reference/feed.hpp"

namespace spotter::test {

inline std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 255);
  return bytes;
}

inline void write_set(const std::filesystem::path& directory, const std::string& name,
                      std::uint32_t count, std::uint64_t seed) {
  std::string images = big_endian(0x803) + big_endian(count) + big_endian(28) + big_endian(28);
  std::string labels = big_endian(0x801) + big_endian(count);
  train::Sequence random(seed);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto label = random.below(train::kClasses);
    labels += static_cast<char>(label);
    for (std::uint32_t pixel = 0; pixel < train::kPixels; ++pixel) {
      const bool bright = pixel / 79 == label;
      images += static_cast<char>(random.below(55) + (bright ? 200 : 0));
    }
  }
  write_file(directory / (name + "-images-idx3-ubyte"), images);
  write_file(directory / (name + "-labels-idx1-ubyte"), labels);
}

inline void write_small_mnist(const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  write_set(directory, "train", 300, 1);
  write_set(directory, "t10k", 100, 2);
}

}  // namespace spotter::test
