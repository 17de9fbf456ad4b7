// Labelled images in memory, whichever files they came from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "agent/base/result.hpp"

namespace spotter::train {

inline constexpr std::uint32_t kClasses = 10;  // of both data sets
inline constexpr double kBrightest = 255;      // what a network divides each byte of an image by

struct Shape {
  std::uint32_t channels = 0;
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::size_t pixels() const { return std::size_t{channels} * height * width; }
};

struct Examples {
  std::vector<std::uint8_t> images;  // count x channels x height x width, 0..255
  std::vector<std::uint8_t> labels;  // count, 0..9
  std::uint32_t count = 0;
};

struct Dataset {
  Shape shape;
  Examples training;
  Examples test;
  std::string sum;  // XXH3 of all of it: a resumed run must see the same data
};

// Reads the standard files of MNIST or of CIFAR-10 (binary version), whichever the directory holds.
// The error names the file, what is wrong with it, and how to get good ones.
Result<Dataset> read_dataset(const std::filesystem::path& directory);

// For the readers of one format each: computes the sum.
Dataset make_dataset(const Shape& shape, Examples training, Examples test);

}  // namespace spotter::train
