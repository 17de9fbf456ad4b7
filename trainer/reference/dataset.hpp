// Labelled images in memory, whichever files they came from.
#pragma once

#include <filesystem>

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

// Computes the sum for the readers, which have one format each.
Dataset make_dataset(const Shape& shape, Examples training, Examples test);

// The MNIST files, read and validated whole. Format: http://yann.lecun.com/exdb/mnist/ (idx:
// big-endian magic 0x00000803 for images, 0x00000801 for labels, then the sizes, then bytes).
inline constexpr std::uint32_t kPixels = 28 * 28;

// Reads {train,t10k}-{images-idx3,labels-idx1}-ubyte. The error names the file, what is wrong with
// it, and how to get good ones.
Result<Dataset> read_mnist(const std::filesystem::path& directory);

// CIFAR-10, binary version (https://www.cs.toronto.edu/~kriz/cifar.html): data_batch_1.bin ..
// data_batch_5.bin and test_batch.bin; a record is one label and 3 x 32 x 32 bytes, red, green,
// blue.
inline constexpr const char* kCifar10TestFile = "test_batch.bin";

// Any whole number of records a file, so that tests can have small ones.
Result<Dataset> read_cifar10(const std::filesystem::path& directory);

}  // namespace spotter::train
