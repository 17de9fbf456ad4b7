#include "trainer/reference/cifar10.hpp"

#include <string_view>

#include "trainer/library/files.hpp"

namespace spotter::train {

namespace fs = std::filesystem;

namespace {

constexpr Shape kShape{3, 32, 32};
constexpr std::size_t kRecord = 1 + 3 * 32 * 32;
constexpr std::size_t kBatchFileLimit = std::size_t{1}
                                        << 30;  // 30 batches: a larger file is a mistake

Result<void> append_batch(const fs::path& path, Examples& examples) {
  std::string bytes;
  const auto read = checkpoint::read_pieces(path, [&](std::string_view piece) {
    if (bytes.size() <= kBatchFileLimit) bytes.append(piece);
  });
  if (!read) return failure(read.error().message);
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

Result<Dataset> read_cifar10(const fs::path& directory) {
  const std::string advice = "\n  scripts/fetch-cifar10 " + directory.string() + " gets the files.";
  Examples training;
  Examples test;
  for (int batch = 1; batch <= 5; ++batch) {
    const fs::path path = directory / ("data_batch_" + std::to_string(batch) + ".bin");
    if (auto read = append_batch(path, training); !read) {
      return failure(read.error().message + advice);
    }
  }
  if (auto read = append_batch(directory / kCifar10TestFile, test); !read) {
    return failure(read.error().message + advice);
  }
  return make_dataset(kShape, std::move(training), std::move(test));
}

}  // namespace spotter::train
