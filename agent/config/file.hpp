// Whole small files.
#pragma once

#include <sys/types.h>

#include "agent/base/result.hpp"

namespace spotter::config {

struct SmallFile {
  std::string content;
  mode_t mode = 0;
};

// Fails, with a message without the path, when the file does not exist, is not readable, not a
// regular file, or larger than `limit` bytes.
Result<SmallFile> read_small_file(const std::string& path, std::size_t limit);

}  // namespace spotter::config
