#include "trainer/reference/dataset.hpp"

#include "trainer/library/manifest.hpp"
#include "trainer/reference/cifar10.hpp"
#include "trainer/reference/mnist.hpp"

namespace spotter::train {

namespace {

std::string_view view(const std::vector<std::uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Dataset make_dataset(const Shape& shape, Examples training, Examples test) {
  checkpoint::Sum sum;
  for (const auto* examples : {&training, &test}) {
    sum.add(view(examples->images));
    sum.add(view(examples->labels));
  }
  return {shape, std::move(training), std::move(test), sum.hex()};
}

Result<Dataset> read_dataset(const std::filesystem::path& directory) {
  std::error_code unreadable;
  const bool cifar10 = std::filesystem::exists(directory / kCifar10TestFile, unreadable);
  return cifar10 ? read_cifar10(directory) : read_mnist(directory);
}

}  // namespace spotter::train
