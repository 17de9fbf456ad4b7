// CIFAR-10, binary version (https://www.cs.toronto.edu/~kriz/cifar.html): data_batch_1.bin ..
// data_batch_5.bin and test_batch.bin; a record is one label and 3 x 32 x 32 bytes, red, green,
// blue.
#pragma once

#include "trainer/reference/dataset.hpp"

namespace spotter::train {

inline constexpr const char* kCifar10TestFile = "test_batch.bin";

// Any whole number of records a file, so that tests can have small ones.
Result<Dataset> read_cifar10(const std::filesystem::path& directory);

}  // namespace spotter::train
