// The MNIST files, read and validated whole. Format: http://yann.lecun.com/exdb/mnist/ (idx:
// big-endian magic 0x00000803 for images, 0x00000801 for labels, then the sizes, then bytes).
#pragma once

#include "trainer/reference/dataset.hpp"

namespace spotter::train {

inline constexpr std::uint32_t kPixels = 28 * 28;

// Reads {train,t10k}-{images-idx3,labels-idx1}-ubyte. The error names the file, what is wrong with
// it, and how to get good ones.
Result<Dataset> read_mnist(const std::filesystem::path& directory);

}  // namespace spotter::train
