// Whole small files.
#pragma once

#include <sys/types.h>

#include <string>

#include "agent/base/result.hpp"

namespace spotter::config {

struct SmallFile {
  std::string content;
  mode_t mode = 0;
};

// Fails, in words without the path: not there, not readable, not a regular file, larger than
// `limit` bytes.
Result<SmallFile> read_small_file(const std::string& path, std::size_t limit);

}  // namespace spotter::config
