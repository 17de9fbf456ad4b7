// A FUSE mount of a tree of files, read-only, by libfuse's low-level interface: what the kernel
// asks is answered from the tree at once, and reads when the cache has their bytes.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/data/fast_file/cache.hpp"
#include "agent/data/fast_file/tree.hpp"

namespace spotter::fastfile {

// What is missing on this machine for a mount, in words for a person; none: nothing.
std::optional<std::string> missing_for_mount();

class Session {
 public:
  struct Source {
    const Tree& tree;
    const std::vector<RemoteFile>& files;
    Cache& cache;
    std::function<void(const s3::Failure&)> failed;  // a read; its reader gets EIO
  };

  // At that place, which is a folder: also for other users, when this is root. What the kernel
  // calls its source is `name`. REQUIRES: the source outlives it.
  static Result<std::unique_ptr<Session>> mount(const std::filesystem::path& place,
                                                const std::string& name, Source source);
  ~Session();  // unmounts, whoever still uses it: open files then give errors
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Readable when serve() has something to do.
  int descriptor() const;
  // All that the kernel has asked until now, without waiting for more.
  void serve();
  // It was unmounted by somebody else.
  bool ended() const;

 private:
  struct Fuse;
  explicit Session(Source source);

  std::unique_ptr<Fuse> fuse_;
};

}  // namespace spotter::fastfile
