#include "trainer/reference/dataset.hpp"

#include <algorithm>

#include "trainer/library/files.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::train {

namespace {

std::string_view view(const std::vector<std::uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

constexpr std::uint64_t kFileLimit = std::uint64_t{1}
                                     << 30;  // 20 x MNIST: memory is not for guessing
constexpr std::uint32_t kImagesMagic = 0x803;
constexpr std::uint32_t kLabelsMagic = 0x801;

std::uint32_t big_endian(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = at; i < at + 4; ++i)
    value = value << 8 | static_cast<std::uint8_t>(bytes[i]);
  return value;
}

// The bytes behind a header of `dimensions` sizes; sizes[0] receives the count.
Result<std::string> read_idx(const fs::path& path, std::uint32_t magic,
                             std::vector<std::uint32_t>& sizes) {
  const std::size_t header = 4 + 4 * sizes.size();
  const std::string bytes = TRY(checkpoint::read_whole(path, kFileLimit + header));
  if (bytes.size() < header)
    return failure(path.string() + " has only " + std::to_string(bytes.size()) + " bytes");
  if (big_endian(bytes, 0) != magic) {
    const bool zipped = bytes.starts_with("\x1f\x8b");
    return failure(path.string() + " is not an idx file of this kind" +
                   (zipped ? ": it is still compressed, use gunzip" : ": its magic is wrong"));
  }
  std::uint64_t expected = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sizes[i] = big_endian(bytes, 4 + 4 * i);
    if (sizes[i] == 0 || sizes[i] > kFileLimit / expected)
      return failure(path.string() + " states impossible sizes");
    expected *= sizes[i];
  }
  if (bytes.size() - header != expected) {
    return failure(path.string() + " has " + std::to_string(bytes.size() - header) +
                   " bytes of data, its header says " + std::to_string(expected));
  }
  return bytes.substr(header);
}

Result<Examples> read_examples(const fs::path& directory, const std::string& set) {
  const fs::path images_path = directory / (set + "-images-idx3-ubyte");
  const fs::path labels_path = directory / (set + "-labels-idx1-ubyte");
  std::vector<std::uint32_t> sizes(3);
  std::vector<std::uint32_t> counts(1);
  const auto images = TRY(read_idx(images_path, kImagesMagic, sizes));
  if (sizes[1] * sizes[2] != kPixels || sizes[1] != 28) {
    return failure(images_path.string() + " holds images of " + std::to_string(sizes[1]) + " x " +
                   std::to_string(sizes[2]) + " pixels, not 28 x 28");
  }
  const auto labels = TRY(read_idx(labels_path, kLabelsMagic, counts));
  if (counts[0] != sizes[0]) {
    return failure(directory.string() + ": " + std::to_string(sizes[0]) + " images but " +
                   std::to_string(counts[0]) + " labels in " + set);
  }
  Examples examples{{images.begin(), images.end()}, {labels.begin(), labels.end()}, sizes[0]};
  const auto largest = *std::max_element(examples.labels.begin(), examples.labels.end());
  if (largest >= kClasses) {
    return failure(labels_path.string() + " holds the label " + std::to_string(largest) +
                   "; 0 to 9 are right");
  }
  return examples;
}

constexpr Shape kShape{3, 32, 32};
constexpr std::size_t kRecord = 1 + 3 * 32 * 32;
constexpr std::size_t kBatchFileLimit = std::size_t{1}
                                        << 30;  // 30 batches: a larger file is a mistake

Result<void> append_batch(const fs::path& path, Examples& examples) {
  const std::string bytes = TRY(checkpoint::read_whole(path, kBatchFileLimit));
  if (bytes.empty() || bytes.size() % kRecord != 0) {
    return failure(path.string() + " has " + std::to_string(bytes.size()) +
                   " bytes, which is no whole number of records of " + std::to_string(kRecord));
  }
  for (std::size_t at = 0; at < bytes.size(); at += kRecord) {
    const auto label = static_cast<std::uint8_t>(bytes[at]);
    if (label >= kClasses) {
      return failure(path.string() + " holds the label " + std::to_string(label) + " in record " +
                     std::to_string(at / kRecord) + "; 0 to 9 are right");
    }
    examples.labels.push_back(label);
    const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(at) + 1;
    examples.images.insert(examples.images.end(), first, first + (kRecord - 1));
    ++examples.count;
  }
  return {};
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

Result<Dataset> read_dataset(const fs::path& directory) {
  std::error_code unreadable;
  const bool cifar10 = fs::exists(directory / kCifar10TestFile, unreadable);
  return cifar10 ? read_cifar10(directory) : read_mnist(directory);
}

Result<Dataset> read_mnist(const fs::path& directory) {
  const std::string advice = "\n  scripts/fetch-mnist " + directory.string() + " gets the files.";
  auto training = read_examples(directory, "train");
  if (!training) return failure(training.error().message + advice);
  auto test = read_examples(directory, "t10k");
  if (!test) return failure(test.error().message + advice);
  return make_dataset({1, 28, 28}, std::move(*training), std::move(*test));
}

Result<Dataset> read_cifar10(const fs::path& directory) {
  const std::string advice = "\n  scripts/fetch-cifar10 " + directory.string() + " gets the files.";
  Examples training;
  Examples test;
  for (int batch = 1; batch <= 5; ++batch) {
    const fs::path path = directory / ("data_batch_" + std::to_string(batch) + ".bin");
    if (auto read = append_batch(path, training); !read)
      return failure(read.error().message + advice);
  }
  if (auto read = append_batch(directory / kCifar10TestFile, test); !read)
    return failure(read.error().message + advice);
  return make_dataset(kShape, std::move(training), std::move(test));
}

}  // namespace spotter::train
