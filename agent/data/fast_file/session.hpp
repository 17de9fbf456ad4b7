// A read-only FUSE mount of a tree of files, by libfuse's low-level interface: names are answered
// from the tree at once, reads when the cache has the bytes.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/data/fast_file/cache.hpp"

namespace spotter::fastfile {

// The thing that this machine lacks for a mount, in words for a person; none: nothing.
std::optional<std::string> missing_for_mount();

class Session {
 public:
  struct Source {
    const Tree& tree;
    const std::vector<RemoteFile>& files;
    Cache& cache;
    std::function<void(const s3::Failure&)> failed;  // a read has failed; its reader gets EIO
  };

  // Mounts at `place`, an existing folder, for all users if this process is root. `name` is the
  // mount's source in /proc/mounts. REQUIRES: the source outlives it.
  static Result<std::unique_ptr<Session>> mount(const std::filesystem::path& place,
                                                const std::string& name, Source source);
  ~Session();  // unmounts, even if in use: open files then return errors
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Becomes readable when serve() has something to do.
  int descriptor() const;
  // Answers all of the kernel's requests so far, without waiting for more.
  void serve();
  // Another process has unmounted it.
  bool ended() const;

 private:
  struct Fuse;
  explicit Session(Source source);

  std::unique_ptr<Fuse> fuse_;
};

}  // namespace spotter::fastfile
