#include "agent/act/host/layout.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "agent/act/host/fd.hpp"
#include "agent/io/files.hpp"
#include "agent/wire/version.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t record_limit = 64U << 10;
constexpr std::uint64_t known_version = 1;
constexpr std::uint64_t files_limit =
    20'000'000;                   // minutes on an EBS volume; more is no job's output
constexpr int depth_limit = 128;  // one descriptor each; paths end at 4096 bytes anyway
constexpr const char* own_directory = ".spotter";

Fd open_directory(int parent, const char* name) {
  return Fd(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
using Listing = std::unique_ptr<DIR, CloseDirectory>;

// The walk. A directory's names are listed through a second descriptor, since fdopendir keeps its
// own.
class Walk {
 public:
  Walk(Owner from, Owner to, dev_t device) : from_(from), to_(to), device_(device) {}

  Outcome<void> directory(int fd, int depth) {
    if (depth > depth_limit) {
      return fail("too-many-files", "directories on the volume are nested too deeply");
    }
    const int duplicate = ::openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (duplicate < 0) return fail_errno(errno, "cannot list a directory of the volume");
    const Listing listing(::fdopendir(duplicate));
    if (!listing) return fail_errno(errno, "cannot list a directory of the volume");
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(listing.get());
      if (entry == nullptr) break;
      const std::string name = entry->d_name;
      if (name == "." || name == ".." || (depth == 0 && name == own_directory)) continue;
      if (const auto done = one(fd, name, depth); !done) return done;
    }
    if (errno != 0) return fail_errno(errno, "cannot list a directory of the volume");
    return {};
  }

  Outcome<void> one(int parent, const std::string& name, int depth) {
    struct stat status {};
    if (::fstatat(parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) return {};
      return fail_errno(errno, "cannot look at " + name);
    }
    if (status.st_dev != device_) return {};
    if (++seen_ > files_limit) {
      return fail("too-many-files",
                  "more than " + std::to_string(files_limit) +
                      " files would change their owner; do it by hand (chown -R)");
    }
    if (S_ISDIR(status.st_mode)) {
      const Fd below = open_directory(parent, name.c_str());
      if (!below) return fail_errno(errno, "cannot open " + name);
      if (const auto done = directory(below.get(), depth + 1); !done) return done;
    }
    return give(parent, name.c_str(), status);
  }

  std::uint64_t given() const { return given_; }

 private:
  // Each id by itself, so that a walk that was cut short can simply be repeated.
  Outcome<void> give(int parent, const char* name, const struct stat& status) {
    const uid_t uid = status.st_uid == from_.uid ? to_.uid : status.st_uid;
    const gid_t gid = status.st_gid == from_.gid ? to_.gid : status.st_gid;
    if (uid == status.st_uid && gid == status.st_gid) return {};
    if (::fchownat(parent, name, uid, gid, AT_SYMLINK_NOFOLLOW) != 0) {
      return fail_errno(errno, std::string("cannot give ") + name + " to its user");
    }
    ++given_;
    return {};
  }

  Owner from_;
  Owner to_;
  dev_t device_;
  std::uint64_t seen_ = 0;
  std::uint64_t given_ = 0;
};

bool safe_relative(const fs::path& path) {
  if (path.empty() || path.is_absolute()) return false;
  for (const auto& part : path) {
    if (part == ".." || part == own_directory) return false;
  }
  return true;
}

// Ours, and no symlink that somebody put there: what we write into it is believed later.
Outcome<void> ensure_own_directory(const fs::path& mount_point) {
  const auto path = mount_point / own_directory;
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) {
    return fail_errno(errno, "cannot make " + path.string());
  }
  const Fd directory = open_directory(AT_FDCWD, path.c_str());
  if (!directory) {
    return fail("layout-unusable", path.string() + " is not a directory; move it away");
  }
  if (::geteuid() == 0 &&
      (::fchown(directory.get(), 0, 0) != 0 || ::fchmod(directory.get(), 0755) != 0)) {
    return fail_errno(errno, "cannot own " + path.string());
  }
  return {};
}

// One component after the other below the root, never through a symlink. An existing last one is
// left to its owner: the user may have made it.
Outcome<void> ensure_user_directory(const fs::path& mount_point, const fs::path& relative,
                                    const User& user) {
  Fd at = Fd(::open(mount_point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!at) return fail_errno(errno, "cannot open " + mount_point.string());
  for (const auto& part : relative) {
    if (part.empty() || part == ".") continue;
    const bool made = ::mkdirat(at.get(), part.c_str(), 0755) == 0;
    if (!made && errno != EEXIST) {
      return fail_errno(errno, "cannot make " + (mount_point / relative).string());
    }
    Fd below = open_directory(at.get(), part.c_str());
    if (!below) {
      return fail("layout-unusable", (mount_point / relative).string() +
                                         " is not a directory of the volume itself; move it away");
    }
    if (made && ::geteuid() == 0 && ::fchown(below.get(), user.uid, user.gid) != 0) {
      return fail_errno(errno,
                        "cannot give " + (mount_point / relative).string() + " to " + user.name);
    }
    at = std::move(below);
  }
  return {};
}

}  // namespace

Outcome<void> ensure_link(const MountRequest& request) {
  const fs::path target = request.mount_point / request.container;
  std::error_code error;
  if (fs::read_symlink(request.link, error) == target) return {};
  const auto status = fs::symlink_status(request.link, error);
  if (fs::exists(status) && !fs::is_symlink(status)) {
    return fail("layout-unusable", request.link.string() + " is there, and is no link");
  }
  if (const auto made = io::make_directories(request.link.parent_path(), 0755); !made) {
    return fail_errno(made.error(), "cannot make " + request.link.parent_path().string());
  }
  fs::remove(request.link, error);
  fs::create_symlink(target, request.link, error);
  if (error) return fail_errno(error, "cannot make the link " + request.link.string());
  return {};
}

Outcome<VolumeRecord> read_volume_record(const fs::path& mount_point) {
  VolumeRecord record;
  const auto path = mount_point / own_directory / "volume.json";
  const auto text = io::read_file(path, record_limit);
  if (!text && text.error() == std::errc::no_such_file_or_directory) return record;
  if (!text) return fail_errno(text.error(), "cannot read " + path.string());
  const json object = json::parse(*text, nullptr, false);
  if (!object.is_object()) return record;
  if (const auto newer = wire::newer(object, "version", known_version, "the storage")) {
    return fail("newer-format", path.string() + ": " + newer->message);
  }
  const auto number = [&object](const char* name) {
    const auto at = object.find(name);
    return at != object.end() && at->is_number_unsigned() ? at->get<std::uint32_t>() : UINT32_MAX;
  };
  const auto text_of = [&object](const char* name) {
    const auto at = object.find(name);
    return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  record = {text_of("volume"), text_of("user"), number("uid"), number("gid"), true};
  record.present = record.uid != UINT32_MAX && record.gid != UINT32_MAX;
  return record;
}

Outcome<std::uint64_t> give_files(const fs::path& directory, Owner from, Owner to) {
  const Fd root(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  if (!root || ::fstat(root.get(), &status) != 0) {
    return fail_errno(errno, "cannot open " + directory.string());
  }
  Walk walk(from, to, status.st_dev);
  if (const auto walked = walk.directory(root.get(), 0); !walked) {
    return tl::unexpected<Failure>(walked.error());
  }
  return walk.given();
}

Outcome<void> ensure_layout(const MountRequest& request, const User& user, Mounted& mounted) {
  const auto& root = request.mount_point;
  if (const auto made = ensure_own_directory(root); !made) return made;
  const auto before = read_volume_record(root);
  if (!before) return tl::unexpected<Failure>(before.error());
  mounted.previous_volume = before->volume;
  if (before->present && (before->uid != user.uid || before->gid != user.gid)) {
    const auto given = give_files(root, {before->uid, before->gid}, {user.uid, user.gid});
    if (!given) return tl::unexpected<Failure>(given.error());
    mounted.owners_changed = *given;
  }
  for (const auto& directory : request.directories) {
    if (!safe_relative(directory)) {
      return fail("bad-request", "'" + directory + "' is not a path inside the volume");
    }
    if (const auto made = ensure_user_directory(root, directory, user); !made) return made;
  }
  if (!request.link.empty()) {
    if (const auto linked = ensure_link(request); !linked) return linked;
  }
  const json record = {{"version", known_version},
                       {"volume", request.volume},
                       {"user", user.name},
                       {"uid", user.uid},
                       {"gid", user.gid}};
  const auto path = root / own_directory / "volume.json";
  const auto written = io::atomic_write(path, record.dump() + "\n", 0644);
  if (!written) return fail_errno(written.error(), "cannot write " + path.string());
  if (const auto synced = io::fsync_directory(root); !synced) {
    return fail_errno(synced.error(), "cannot sync " + root.string());
  }
  return {};
}

}  // namespace spotter::act::host
