// A data set in CIFAR-10's binary format, small enough for tests: each class has bright rows of its
// own.
#pragma once

#include <cstdint>

#include "tests/trainer/scratch.hpp"
#include "trainer/reference/dataset.hpp"
#include "trainer/reference/feed.hpp"

namespace spotter::test {

inline std::string cifar10_batch(std::uint32_t count, std::uint64_t seed) {
  std::string bytes;
  train::Sequence random(seed);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto label = random.below(train::kClasses);
    bytes += static_cast<char>(label);
    for (std::uint32_t pixel = 0; pixel < 3 * 1024; ++pixel) {
      const bool bright = pixel % 1024 / 103 == label;
      bytes += static_cast<char>(random.below(55) + (bright ? 200 : 0));
    }
  }
  return bytes;
}

inline void write_small_cifar10(const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  for (int batch = 1; batch <= 5; ++batch) {
    write_file(directory / ("data_batch_" + std::to_string(batch) + ".bin"),
               cifar10_batch(32, static_cast<std::uint64_t>(batch)));
  }
  write_file(directory / train::kCifar10TestFile, cifar10_batch(50, 9));
}

}  // namespace spotter::test
