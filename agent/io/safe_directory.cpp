#include "agent/io/safe_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/random.h>
#ifndef SPOTTER_CLIENT
#include <linux/openat2.h>
#include <sys/syscall.h>
#endif

#include <algorithm>
#include <climits>
#include <memory>

#include "agent/base/text.hpp"

namespace spotter::io {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

tl::unexpected<std::error_code> failed(int error) {
  return tl::unexpected<std::error_code>(std::error_code(error, std::generic_category()));
}

#ifndef SPOTTER_CLIENT

constexpr int only_named = O_PATH;  // a handle with which nothing of the file can be read

// The mount that a file is on; 0: the kernel (before 5.8) does not say. On an overlayfs a file's
// device may be another than its folder's.
std::uint64_t mount_of(int file) {
  struct statx seen {};
  if (::statx(file, "", AT_EMPTY_PATH, STATX_MNT_ID, &seen) != 0) return 0;
  return (seen.stx_mask & STATX_MNT_ID) != 0 ? seen.stx_mnt_id : 0;
}

#else

constexpr int only_named = O_RDONLY;

std::uint64_t mount_of(int /*file*/) { return 0; }

#endif

// Does in steps what openat2(2) does at once. A filter of system calls may forbid openat2(2), as it
// cannot look into its arguments.
Result<Descriptor, std::error_code> open_by_steps(int root, const std::string& path, int flags,
                                                  mode_t mode) {
  struct stat home {};
  if (::fstat(root, &home) != 0) return last_error();
  const std::uint64_t mount = mount_of(root);
  Descriptor at;
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find('/', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    const bool last = end == path.size();
    const int how = last ? flags : only_named | O_DIRECTORY | O_CLOEXEC;
    Descriptor next(
        ::openat(at ? at.get() : root, name.empty() ? "." : name.c_str(), how | O_NOFOLLOW, mode));
    struct stat seen {};
    if (!next || ::fstat(next.get(), &seen) != 0) return last_error();
    const bool same = mount != 0 ? mount_of(next.get()) == mount : seen.st_dev == home.st_dev;
    if (!same) return failed(EXDEV);
    at = std::move(next);
    begin = end + 1;
  }
  return at;
}

Result<Descriptor, std::error_code> open_beneath(int root, const std::string& name, int flags,
                                                 mode_t mode) {
  // The kernel would let ".." pass as long as it stays below; no name of ours has it.
  if (name.starts_with('/') || ("/" + name + "/").find("/../") != std::string::npos)
    return failed(EXDEV);
  const std::string path = name.empty() ? "." : name;
  // With O_PATH nothing is opened at all: openat2(2) refuses what would have no meaning.
  flags |= (flags & only_named) != 0 ? O_CLOEXEC : O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
#ifndef SPOTTER_CLIENT
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags);
  how.mode = (flags & O_CREAT) != 0 ? mode : 0;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV;
  for (int attempt = 0;; ++attempt) {
    const auto opened = ::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how);
    if (opened >= 0) return Descriptor(static_cast<int>(opened));
    if (errno == ENOSYS) return open_by_steps(root, path, flags, mode);
    // EAGAIN: something was renamed meanwhile, and the kernel cannot tell where "." is.
    if (errno == EINTR || (errno == EAGAIN && attempt < 100)) continue;
    return last_error();
  }
#else
  return open_by_steps(root, path, flags, mode);
#endif
}

struct Split {
  std::string parent, last;
};

// A name that is made, renamed or removed has a last component of its own.
Result<Split, std::error_code> split(const std::string& name) {
  const auto slash = name.rfind('/');
  Split parts{slash == std::string::npos ? "" : name.substr(0, slash), last_component(name)};
  if (parts.last.empty() || parts.last == "." || parts.last == "..") return failed(EINVAL);
  return parts;
}

struct Named {
  Descriptor parent;
  std::string last;
};

Result<Named, std::error_code> find_parent(int root, const std::string& name) {
  auto parts = TRY(split(name));
  auto parent = TRY(open_beneath(root, parts.parent, only_named | O_DIRECTORY, 0));
  return Named{std::move(parent), std::move(parts.last)};
}

Result<void, std::error_code> sync_directory(int directory) {
  const Descriptor opened(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened || ::fsync(opened.get()) != 0) return last_error();
  return {};
}

Result<void, std::error_code> each_in(int directory,
                                      const std::function<bool(const std::string&)>& take) {
  Descriptor opened(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return last_error();
  const std::unique_ptr<DIR, CloseDirectory> listing(::fdopendir(opened.get()));
  if (!listing) return last_error();
  (void)opened.release();
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(listing.get());
    if (entry == nullptr && errno != 0) return last_error();
    if (entry == nullptr) return {};
    const std::string name = entry->d_name;
    if (name != "." && name != ".." && !take(name)) return {};
  }
}

// A name that cannot be foreseen, so that nobody can put something in its way.
std::string temporary_name(const std::string& name) {
  unsigned chance = 0;
  if (::getentropy(&chance, sizeof chance) != 0) chance = static_cast<unsigned>(::getpid());
  return ".tmp-" + name + printed("-%08x", chance);
}

Result<void, std::error_code> fill(Descriptor file, std::string_view bytes, mode_t mode) {
  const bool good =
      write_all(file.get(), bytes) && ::fchmod(file.get(), mode) == 0 && ::fsync(file.get()) == 0;
  if (!good || ::close(file.release()) != 0) return last_error();
  return {};
}

}  // namespace

std::string last_component(const std::string& name) { return name.substr(name.rfind('/') + 1); }

Result<SafeDirectory, std::error_code> SafeDirectory::open(const fs::path& path) {
  Descriptor opened(::open(path.c_str(), only_named | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return last_error();
  return SafeDirectory(std::move(opened), path);
}

Result<SafeDirectory, std::error_code> SafeDirectory::own(const fs::path& path) {
  // With a slash at its end a link would be followed.
  const fs::path name = path.has_filename() ? path : path.parent_path();
  Descriptor opened(::open(name.c_str(), only_named | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat seen {};
  if (!opened || ::fstat(opened.get(), &seen) != 0) return last_error();
  constexpr mode_t others_writing = 022;
  if (seen.st_uid != ::geteuid() || (seen.st_mode & others_writing) != 0) return failed(EPERM);
  return SafeDirectory(std::move(opened), name);
}

Result<struct stat, std::error_code> SafeDirectory::status() const {
  struct stat seen {};
  if (::fstat(directory_.get(), &seen) != 0) return last_error();
  return seen;
}

Result<Descriptor, std::error_code> SafeDirectory::open(const std::string& name, int flags,
                                                        mode_t mode) const {
  return open_beneath(directory_.get(), name, flags, mode);
}

Result<SafeDirectory, std::error_code> SafeDirectory::folder(const std::string& name) const {
  auto opened = TRY(open(name, only_named | O_DIRECTORY));
  return SafeDirectory(std::move(opened), name.empty() ? path_ : path_ / name);
}

Result<SafeDirectory, std::error_code> SafeDirectory::parent(const std::string& name) const {
  const auto parts = TRY(split(name));
  return folder(parts.parent);
}

Result<Descriptor, std::error_code> SafeDirectory::file(const std::string& name, int flags,
                                                        mode_t mode) const {
  auto opened = TRY(open(name, flags, mode));
  struct stat seen {};
  if (::fstat(opened.get(), &seen) != 0) return last_error();
  if (!S_ISREG(seen.st_mode)) return failed(EINVAL);
  return opened;
}

Result<struct stat, std::error_code> SafeDirectory::look(const std::string& name) const {
  struct stat seen {};
#ifndef SPOTTER_CLIENT
  const auto opened = TRY(open(name, O_PATH | O_NOFOLLOW));
  if (::fstat(opened.get(), &seen) != 0) return last_error();
#else
  const auto at = TRY(find_parent(directory_.get(), name));
  if (::fstatat(at.parent.get(), at.last.c_str(), &seen, AT_SYMLINK_NOFOLLOW) != 0)
    return last_error();
#endif
  return seen;
}

Result<std::string, std::error_code> SafeDirectory::read(const std::string& name,
                                                         std::size_t limit) const {
  const auto opened = TRY(file(name, O_RDONLY));
  struct stat seen {};
  if (::fstat(opened.get(), &seen) != 0) return last_error();
  if (static_cast<std::size_t>(seen.st_size) > limit) return failed(EFBIG);
  return read_to_end(opened.get(), limit);
}

Result<void, std::error_code> SafeDirectory::write(const std::string& name, std::string_view bytes,
                                                   mode_t mode) const {
  const auto at = TRY(find_parent(directory_.get(), name));
  const std::string beside = temporary_name(at.last);
  Descriptor file(::openat(at.parent.get(), beside.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return last_error();
  auto written = fill(std::move(file), bytes, mode);
  if (written && ::renameat(at.parent.get(), beside.c_str(), at.parent.get(), at.last.c_str()) != 0)
    written = last_error();
  if (written) return sync_directory(at.parent.get());
  ::unlinkat(at.parent.get(), beside.c_str(), 0);
  return written;
}

Result<SafeDirectory, std::error_code> SafeDirectory::make_folder(const std::string& name,
                                                                  mode_t mode, bool* ours) const {
  const auto at = TRY(find_parent(directory_.get(), name));
  const bool made = ::mkdirat(at.parent.get(), at.last.c_str(), mode) == 0;
  if (ours) *ours = made;
  if (!made && errno != EEXIST) return last_error();
  auto opened = TRY(open_beneath(at.parent.get(), at.last, only_named | O_DIRECTORY, 0));
  if (made) {
    // A folder that we may write in and not read cannot be opened for that.
    const auto synced = sync_directory(at.parent.get());
    if (!synced && synced.error() != std::errc::permission_denied)
      return tl::unexpected(synced.error());
  }
  return SafeDirectory(std::move(opened), path_ / name);
}

Result<void, std::error_code> SafeDirectory::rename(const std::string& name,
                                                    const SafeDirectory& to,
                                                    const std::string& to_name) const {
  const auto from = TRY(find_parent(directory_.get(), name));
  const auto target = TRY(find_parent(to.directory_.get(), to_name));
  if (::renameat(from.parent.get(), from.last.c_str(), target.parent.get(), target.last.c_str()) !=
      0)
    return last_error();
  TRY(sync_directory(target.parent.get()));
  return sync_directory(from.parent.get());
}

#ifndef SPOTTER_CLIENT
Result<void, std::error_code> SafeDirectory::link(const Descriptor& opened,
                                                  const std::string& name) const {
  const auto at = TRY(find_parent(directory_.get(), name));
  const std::string file = "/proc/self/fd/" + std::to_string(opened.get());
  if (::linkat(AT_FDCWD, file.c_str(), at.parent.get(), at.last.c_str(), AT_SYMLINK_FOLLOW) != 0)
    return last_error();
  return {};
}
#endif

Result<std::string, std::error_code> SafeDirectory::read_link(const std::string& name) const {
  const auto at = TRY(find_parent(directory_.get(), name));
  std::string target(PATH_MAX, '\0');
  const ssize_t length =
      ::readlinkat(at.parent.get(), at.last.c_str(), target.data(), target.size());
  if (length < 0) return last_error();
  target.resize(static_cast<std::size_t>(length));
  return target;
}

Result<void, std::error_code> SafeDirectory::make_link(const std::string& target,
                                                       const std::string& name) const {
  const auto at = TRY(find_parent(directory_.get(), name));
  const std::string beside = temporary_name(at.last);
  if (::symlinkat(target.c_str(), at.parent.get(), beside.c_str()) != 0) return last_error();
  if (::renameat(at.parent.get(), beside.c_str(), at.parent.get(), at.last.c_str()) != 0) {
    const auto error = last_error();
    ::unlinkat(at.parent.get(), beside.c_str(), 0);
    return error;
  }
  return sync_directory(at.parent.get());
}

Result<void, std::error_code> SafeDirectory::remove(const std::string& name) const {
  const auto at = TRY(find_parent(directory_.get(), name));
  if (::unlinkat(at.parent.get(), at.last.c_str(), 0) != 0) return last_error();
  return {};
}

Result<void, std::error_code> SafeDirectory::remove_folder(const std::string& name) const {
  const auto at = TRY(find_parent(directory_.get(), name));
  if (::unlinkat(at.parent.get(), at.last.c_str(), AT_REMOVEDIR) != 0) return last_error();
  return {};
}

Result<void, std::error_code> SafeDirectory::each_name(
    const std::function<bool(const std::string&)>& take) const {
  return each_in(directory_.get(), take);
}

Result<std::vector<std::string>, std::error_code> SafeDirectory::names() const {
  std::vector<std::string> names;
  TRY(each_name([&names](const std::string& name) {
    names.push_back(name);
    return true;
  }));
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> SafeDirectory::matching(const std::string& pattern,
                                                 std::size_t limit) const {
  std::vector<std::string> paths;
  match(pattern, "", limit, paths);
  return paths;
}

// `left`: so many names more are looked at.
void SafeDirectory::match(const std::string& pattern, const std::string& above, std::size_t& left,
                          std::vector<std::string>& paths) const {
  const auto slash = pattern.find('/');
  const std::string first = pattern.substr(0, slash);
  const std::string rest = slash == pattern.npos ? "" : pattern.substr(slash + 1);
  if (first.empty() || first == ".") {
    if (!rest.empty()) match(rest, above, left, paths);
    return;
  }
  std::vector<std::string> names;
  const auto take = [&](const std::string& name) {
    if (left == 0) return false;
    --left;
    names.push_back(name);
    return true;
  };
  if (first.find_first_of("*?[") == first.npos)
    take(first);
  else
    (void)each_name([&](const std::string& name) {
      return ::fnmatch(first.c_str(), name.c_str(), FNM_PERIOD) != 0 || take(name);
    });
  for (const std::string& name : names) {
    if (rest.empty())
      paths.push_back(above + name);
    else if (const auto inner = folder(name))
      inner->match(rest, above + name + "/", left, paths);
  }
}

bool SafeDirectory::may_change() const {
  return ::faccessat(descriptor(), ".", W_OK | X_OK, AT_EACCESS) == 0;
}

Result<void, std::error_code> SafeDirectory::sync() const {
  return sync_directory(directory_.get());
}

Result<void, std::error_code> SafeDirectory::change_mode(mode_t mode) const {
  const auto opened = TRY(open("", O_RDONLY | O_DIRECTORY));
  if (::fchmod(opened.get(), mode) != 0) return last_error();
  return {};
}

#ifndef SPOTTER_CLIENT
Result<void, std::error_code> SafeDirectory::give(uid_t uid, gid_t gid) const {
  return io::give(directory_, uid, gid);
}

Result<void, std::error_code> give(const Descriptor& opened, uid_t uid, gid_t gid) {
  if (::fchownat(opened.get(), "", uid, gid, AT_EMPTY_PATH) != 0) return last_error();
  return {};
}
#endif

}  // namespace spotter::io
