// One history has one writer, which holds the lock of its directory.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
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

  // In a gang (SPOTTER_GANG_MEMBER): fails when another writer has taken the lock since, or that
  // cannot be read. A machine that was paused may have lost its own unnoticed: a server of NFS
  // keeps it for 90 s. It reads this writer's `<directory>/.writer-of-gang-*`, a claim that the
  // next one removes. Not the locked file: closing that would release the lock.
  Result<void> still_held() const;

  WriterLock(WriterLock&& other) noexcept
      : file_(std::move(other.file_)),
        key_(std::exchange(other.key_, {})),
        claim_(std::move(other.claim_)) {}
  WriterLock& operator=(WriterLock&&) = delete;
  ~WriterLock();

 private:
  using Key = std::pair<dev_t, ino_t>;
  WriterLock(Descriptor file, Key key, std::filesystem::path claim)
      : file_(std::move(file)), key_(key), claim_(std::move(claim)) {}

  Descriptor file_;
  Key key_;                      // zeros: moved from
  std::filesystem::path claim_;  // there as long as nobody followed; empty: not in a gang
};

}  // namespace spotter::checkpoint
