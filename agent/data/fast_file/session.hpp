// A read-only FUSE mount of a tree of files, by libfuse's low-level interface: names are answered
// from the tree at once, reads when the cache has the bytes.
#pragma once

#include "agent/aws/s3/client.hpp"
#include "agent/config/channel.hpp"
#include "agent/data/catalogue.hpp"
#include "agent/data/fast_file/cache.hpp"

namespace spotter::fastfile {

// The thing that this machine lacks for a mount, in words for a person; none: nothing.
std::optional<std::string> missing_for_mount();

class Session : Pinned {
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

// Mode `fast_file`: a channel's objects as read-only files below one folder, as in SageMaker's
// FastFile mode. Names are those of mode `file` (data::file_name()), sizes and times those of the
// listing; bytes are fetched when they are read.
//
// A read returns all its bytes or EIO, never fewer, which would look like the file's end. The
// kernel caches what it has read, and as listings never change it does not ask twice.

struct ViewSettings {
  wire::Channel channel;
  std::filesystem::path directory;  // of all channels; the view is at directory/NAME
  std::filesystem::path frozen;     // the listing's file; empty: none
  int mounted = -1;                 // /dev/fuse, of a view that is mounted already; -1: it is not
  std::size_t budget = 0;           // bytes of memory
  data::Shard shard;
  // Called at the first failure of a read, the listing or the mount, with a message that names
  // channel and key.
  std::function<void(const std::string& what)> failed;
};

class View {
 public:
  // Starts to list. REQUIRES: the client outlives it.
  View(ViewSettings settings, s3::Client& client);
  ~View();

  // Does all that is possible without waiting; mounts when the listing is complete.
  void advance();
  bool mounted() const { return session_ != nullptr; }
  // To poll for reading; -1: there is nothing to poll.
  int descriptor() const { return session_ && !session_->ended() ? session_->descriptor() : -1; }

 private:
  Result<void> choose_files();
  Result<void> mount();
  void fail(const std::string& what);
  std::string said(const std::string& what) const {
    return "channel " + settings_.channel.name + ": " + what;
  }

  ViewSettings settings_;
  s3::Client& client_;
  data::Catalogue catalogue_;
  std::vector<RemoteFile> files_;
  Tree tree_;
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<Session> session_;
  bool failed_ = false;
};

}  // namespace spotter::fastfile
