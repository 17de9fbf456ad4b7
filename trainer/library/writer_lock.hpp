// One history has one writer, which holds the lock of its directory.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <utility>

#include "agent/base/result.hpp"
#include "trainer/library/files.hpp"

namespace spotter::checkpoint {

// A record lock on `<directory>/.writer` (fcntl(2)): unlike flock's, forked children (data loaders)
// do not hold it, and NFS supports it. Released by the destructor, and by the kernel when the
// process ends. On a file system without locks it has no effect.
class WriterLock {
 public:
  // Creates the directory if needed. Fails when another writer, in any process, holds the lock.
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
