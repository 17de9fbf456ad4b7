#include "agent/host/give.hpp"

#include <fcntl.h>

#include <cerrno>

namespace spotter::act::host {
namespace {

constexpr std::uint64_t files_limit =
    20'000'000;                   // minutes on an EBS volume; more is no job's output
constexpr int depth_limit = 128;  // some descriptors each; paths end at 4096 bytes anyway

class Walk {
 public:
  Walk(const Giving& giving, dev_t device) : giving_(giving), device_(device) {}

  Result<void> directory(const io::Beneath& at, int depth) {
    if (depth > depth_limit)
      return fail("too-many-files", "directories on the volume are nested too deeply");
    Result<void> done;
    const auto listed = at.each_name([&](const std::string& name) {
      if (depth == 0 && name == giving_.skipped) return true;
      done = one(at, name, depth);
      return done.has_value();
    });
    if (!listed) return fail_errno(listed.error(), "cannot list " + at.path().string());
    return done;
  }

  std::uint64_t given() const { return given_; }

 private:
  Result<void> one(const io::Beneath& at, const std::string& name, int depth) {
    const auto opened = at.open(name, O_PATH | O_NOFOLLOW);
    struct stat status {};
    if (!opened) {
      const bool gone = opened.error() == std::errc::no_such_file_or_directory;
      if (gone || opened.error() == std::errc::cross_device_link) return {};
      return fail_errno(opened.error(), "cannot look at " + (at.path() / name).string());
    }
    if (::fstat(opened->get(), &status) != 0) return fail_errno(errno, "cannot look at " + name);
    if (status.st_dev != device_) return {};
    if (++seen_ > files_limit) {
      return fail("too-many-files",
                  "more than " + std::to_string(files_limit) +
                      " files would change their owner; do it by hand (chown -R)");
    }
    if (!S_ISDIR(status.st_mode)) return give(*opened, status, name);
    const auto below = at.folder(name);
    const auto now = below ? below->status() : tl::unexpected(below.error());
    if (!now) return fail_errno(now.error(), "cannot open " + (at.path() / name).string());
    if (now->st_ino != status.st_ino) return {};  // it was replaced: not ours to give
    if (const auto done = directory(*below, depth + 1); !done) return done;
    return give(*opened, status, name);
  }

  // On a volume each id by itself: a file of root's may have the user's group.
  Result<void> give(const io::Descriptor& opened, const struct stat& status,
                    const std::string& name) {
    const bool theirs = status.st_uid == giving_.from.uid;
    const bool elsewhere = !S_ISDIR(status.st_mode) && status.st_nlink != 1;
    if (giving_.shared && (!theirs || elsewhere)) return {};
    const uid_t uid = theirs ? giving_.to.uid : status.st_uid;
    const gid_t gid = status.st_gid == giving_.from.gid ? giving_.to.gid : status.st_gid;
    if (uid == status.st_uid && gid == status.st_gid) return {};
    if (const auto given = io::give(opened, uid, gid); !given)
      return fail_errno(given.error(), "cannot give " + name + " to its user");
    ++given_;
    return {};
  }

  const Giving& giving_;
  dev_t device_;
  std::uint64_t seen_ = 0;
  std::uint64_t given_ = 0;
};

}  // namespace

Result<std::uint64_t> give_files(const io::Beneath& directory, const Giving& giving) {
  const auto status = directory.status();
  if (!status) return fail_errno(status.error(), "cannot look at " + directory.path().string());
  Walk walk(giving, status->st_dev);
  if (const auto walked = walk.directory(directory, 0); !walked)
    return tl::unexpected<Error>(walked.error());
  return walk.given();
}

}  // namespace spotter::act::host
