// One history has one writer, which holds the lock of its directory.
#pragma once

#include <sys/types.h>

#include "trainer/library/bulk.hpp"
#include "trainer/library/files.hpp"

namespace spotter::checkpoint {

// A record lock on `<directory>/.writer` (fcntl(2)): unlike flock's, forked children (data loaders)
// do not hold it, and NFS supports it. Released by the destructor, and by the kernel when the
// process ends. On a file system without locks it has no effect.
class [[nodiscard]] WriterLock {
 public:
  // Creates the directory if needed. Fails when another writer, in any process, holds the lock.
  static Result<WriterLock> take(const fs::path& directory);

  // In a gang (SPOTTER_GANG_MEMBER): fails when another writer has taken the lock since, or that
  // cannot be read. A machine that was paused may have lost its own unnoticed: a server of NFS
  // keeps it for 90 s. It reads this writer's `<directory>/.writer-of-gang-*`, a claim that the
  // next one removes. It cannot read the locked file: closing that would release the lock.
  Result<void> still_held() const;

  WriterLock(WriterLock&& other) noexcept
      : file_(std::move(other.file_)),
        key_(std::exchange(other.key_, {})),
        claim_(std::move(other.claim_)) {}
  WriterLock& operator=(WriterLock&&) = delete;
  ~WriterLock();

 private:
  using Key = std::pair<dev_t, ino_t>;
  WriterLock(Descriptor file, Key key, fs::path claim)
      : file_(std::move(file)), key_(key), claim_(std::move(claim)) {}

  Descriptor file_;
  Key key_;         // zeros: moved from
  fs::path claim_;  // there as long as nobody followed; empty: not in a gang
};

// Writes one checkpoint. Two writers of one directory do not destroy one another's work (of one
// step, the later commit remains), although WriterLock normally prevents a second one.
// If destroyed before commit(), or after a failure, it removes what it wrote. It is not
// thread-safe; different Writers may work in parallel.
class Writer {
 public:
  // Creates `directory` if needed, removes leftovers of dead writers, opens the temporary
  // directory.
  static Result<Writer> begin(const fs::path& directory, std::uint64_t step);

  Writer(Writer&&) noexcept = default;
  Writer& operator=(Writer&&) = delete;
  ~Writer();

  // Writes and fsyncs parts. After a failure the writer is void: every further call fails.
  Result<void> add_parts(std::span<const Part> parts);

  // Links a part of `checkpoint` instead of writing it again. REQUIRES: that checkpoint is durable,
  // and its part has the bytes that `entry` says. False: it cannot be linked (another file system,
  // no links there, gone), and nothing has changed: the caller writes it.
  bool link_part(const PartEntry& entry, const fs::path& checkpoint);

  // Durable when it returns a path. On failure there is no new checkpoint, and older ones are
  // unharmed (one exception: if only the last fsync, that of `directory`, fails, the new one may
  // exist). Replaces a checkpoint of the same step atomically, except one that is unreadable or a
  // newer Spotter's.
  Result<fs::path> commit(const nlohmann::json& meta, std::optional<double> metric = std::nullopt);

  // The manifest that commit() wrote.
  const Manifest& manifest() const { return manifest_; }

 private:
  Writer(fs::path directory, fs::path temporary, std::uint64_t step, Descriptor opened);
  Result<void> check_name(const std::string& name) const;
  static Result<void> may_replace(const fs::path& target);
  Result<void> publish(const fs::path& target);
  void abandon();

  fs::path directory_;
  fs::path temporary_;
  Descriptor opened_;  // holds the lock of a live writer; empty: committed or void
  Manifest manifest_;
};

}  // namespace spotter::checkpoint
