// One history has one writer: whoever saves into a directory holds its lock for as long.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <utility>

#include "agent/base/result.hpp"
#include "trainer/library/files.hpp"

namespace spotter::checkpoint {

// A record lock on `<directory>/.writer` (fcntl(2)): unlike flock's it does not live on in forked
// children, such as the loaders of a data set, and it is known to NFS. Released when this dies, and
// by the kernel when the process does. Where a file system knows no locks there is none.
class WriterLock {
 public:
  // Creates the directory if needed. Fails when another writer, of this process or another, has it.
  static Result<WriterLock> take(const std::filesystem::path& directory);

  WriterLock(WriterLock&& other) noexcept
      : file_(std::move(other.file_)), key_(std::exchange(other.key_, {})) {}
  WriterLock& operator=(WriterLock&&) = delete;
  ~WriterLock();

 private:
  using Key = std::pair<dev_t, ino_t>;
  WriterLock(Descriptor file, Key key) : file_(std::move(file)), key_(key) {}

  Descriptor file_;
  Key key_;  // zeros: moved from
};

}  // namespace spotter::checkpoint
