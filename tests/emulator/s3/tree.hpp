// The keys of a bucket's folder in the order of their bytes, directory by directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/world/s3/listing.hpp"

namespace spotter::emulator::s3 {

// Sorted; a directory's name ends with '/', so that the order is that of the keys below it.
using Names = std::shared_ptr<const std::vector<std::string>>;

// The content of directories, kept as long as their time of change stays: a page of a folder of
// 100,000 files must not read them all again. Thread-safe.
class Directories {
 public:
  // Regular files and directories; nothing else is followed or listed. Empty when it cannot be
  // read.
  Names names(const std::string& directory);

 private:
  struct Known {
    std::uint64_t inode = 0;
    std::int64_t changed = 0;  // nanoseconds
    Names names;
  };
  std::mutex mutex_;
  std::map<std::string, Known> known_;
};

// One look at a bucket: a directory is read at most once.
class Tree : public world::s3::Keys {
 public:
  Tree(Directories& directories, std::string folder)
      : directories_(directories), folder_(std::move(folder)) {}
  std::optional<std::string> at_or_after(const std::string& key) override;

 private:
  std::optional<std::string> first_in(const std::string& directory, const std::string& from);
  const std::vector<std::string>& names(const std::string& directory);

  Directories& directories_;
  std::string folder_;
  std::map<std::string, Names> seen_;
};

}  // namespace spotter::emulator::s3
