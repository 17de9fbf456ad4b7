#include "agent/guard/copying.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iterator>

#include "agent/guard/file_completeness.hpp"
#include "trainer/library/files.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::guard {
namespace {

constexpr std::uint64_t piece_size = 4U << 20;
// A copy that may be stopped writes out each piece of this size, so that the last fsync is as
// short.
constexpr std::uint64_t copied_at_once = 64U << 20;

bool has_room(int file, std::uint64_t bytes) {
  struct statvfs volume {};
  if (::fstatvfs(file, &volume) != 0) return false;
  return std::uint64_t{volume.f_bavail} * volume.f_frsize >= 2 * bytes;
}

bool clone_bytes(int from, int to) { return ::ioctl(to, FICLONE, from) == 0; }

bool copy_bytes(int from, int to, std::uint64_t bytes, const Stopped& stopped) {
  if (clone_bytes(from, to)) return true;
  if (!has_room(to, bytes)) {
    errno = ENOSPC;
    return false;
  }
  off_t at = 0;
  off_t target = 0;
  for (std::uint64_t left = bytes; left > 0;) {
    const std::uint64_t piece = stopped ? std::min(left, copied_at_once) : left;
    const ssize_t copied = ::copy_file_range(from, &at, to, &target, piece, 0);
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) return false;
    left -= static_cast<std::uint64_t>(copied);
    if (!stopped) continue;
    if (::fdatasync(to) != 0) return false;
    if (!stopped()) continue;
    errno = ECANCELED;
    return false;
  }
  return true;
}

// Makes the file, and fills it.
Result<void> make(const struct stat& status, const io::SafeDirectory& folder,
                  const std::string& name, bool durable, const std::function<bool(int to)>& fill) {
  const auto failed = [&](const std::string& why) {
    return failure("cannot copy to " + (folder.path() / name).string() + ": " + why);
  };
  const std::string beside = durable ? name + ".new" : name;
  (void)folder.remove(beside);
  const auto to = folder.file(beside, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (!to) return failed(to.error().message());
  const timespec times[2] = {status.st_atim, status.st_mtim};
  const bool owned = ::geteuid() != 0 || io::give(*to, status.st_uid, status.st_gid);
  const bool good = owned && fill(to->get()) && ::fchmod(to->get(), status.st_mode & 0777) == 0 &&
                    ::futimens(to->get(), times) == 0 && (!durable || ::fsync(to->get()) == 0);
  const std::string why = std::generic_category().message(errno);
  if (!good) {
    (void)folder.remove(beside);
    return failed(why);
  }
  if (!durable) return {};
  if (const auto renamed = folder.rename(beside, folder, name); !renamed)
    return failed(renamed.error().message());
  return {};
}

constexpr int removals_depth = 64;

bool remove_all_in(const io::SafeDirectory& folder, int depth, std::size_t& left) {
  std::vector<std::string> names;
  const auto listed = folder.each_name([&](const std::string& name) {
    names.push_back(name);
    return names.size() < left;
  });
  if (!listed) return false;
  for (const std::string& name : names) {
    if (left == 0 || depth > removals_depth) return false;
    --left;
    if (folder.remove(name)) continue;
    const auto inner = folder.folder(name);
    if (!inner || !remove_all_in(*inner, depth + 1, left) || !folder.remove_folder(name))
      return false;
  }
  return true;
}

}  // namespace

bool is_being_written(int file) {
  ::signal(SIGIO, SIG_IGN);  // of a writer who comes in this very moment
  if (::fcntl(file, F_SETLEASE, F_RDLCK) != 0) return errno == EAGAIN;
  ::fcntl(file, F_SETLEASE, F_UNLCK);
  return false;
}

std::optional<bool> is_on_any(int file, std::initializer_list<std::uint64_t> kinds) {
  struct statfs volume {};
  if (::fstatfs(file, &volume) != 0) return std::nullopt;
  return std::ranges::find(kinds, static_cast<std::uint64_t>(volume.f_type) & 0xffffffffU) !=
         kinds.end();
}

bool has_leases(const io::SafeDirectory& folder) {
  if (is_on_any(folder.descriptor(), {NFS_SUPER_MAGIC, CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC})
          .value_or(true))
    return false;
  constexpr const char* name = "lease";
  (void)folder.remove(name);
  auto writer = folder.file(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
  const auto file = folder.file(name, O_RDONLY);
  (void)folder.remove(name);
  if (!writer || !file || !is_being_written(file->get())) return false;
  *writer = io::Descriptor();
  return ::fcntl(file->get(), F_SETLEASE, F_RDLCK) == 0 &&
         ::fcntl(file->get(), F_SETLEASE, F_UNLCK) == 0;
}

Result<std::string> sum_of_file(int file, std::uint64_t bytes, const Stopped& stopped) {
  checkpoint::Sum sum;
  for (std::uint64_t at = 0; at < bytes;) {
    const auto piece = read_at(file, at, std::min(piece_size, bytes - at));
    if (!piece) return failure("a file became shorter while it was read, or cannot be read");
    sum.add(*piece);
    at += piece->size();
    if (stopped && stopped()) return failure("stopped");
  }
  return sum.hex();
}

Result<void> copy_file(int from, const struct stat& status, const io::SafeDirectory& folder,
                       const std::string& name, const Stopped& stopped, bool durable) {
  return make(status, folder, name, durable, [&](int to) {
    return copy_bytes(from, to, static_cast<std::uint64_t>(status.st_size), stopped);
  });
}

bool clone_file(int from, const struct stat& status, const io::SafeDirectory& folder,
                const std::string& name) {
  return make(status, folder, name, false, [from](int to) { return clone_bytes(from, to); })
      .has_value();
}

Result<io::SafeDirectory, std::error_code> make_above(const io::SafeDirectory& folder,
                                                      const std::string& name,
                                                      const struct stat* like) {
  const auto slash = name.rfind('/');
  if (slash == std::string::npos) return folder.folder("");
  for (std::size_t at = 0; (at = name.find('/', at)) != std::string::npos; ++at) {
    const std::string outer = name.substr(0, at);
    const bool missing = !folder.look(outer);
    auto made = folder.make_folder(outer, 0755);
    if (!made) return made;
    if (!missing || like == nullptr || ::geteuid() != 0) continue;
    if (const auto given = made->give(like->st_uid, like->st_gid); !given)
      return tl::unexpected(given.error());
  }
  return folder.folder(name.substr(0, slash));
}

void remove_any(const io::SafeDirectory& from, const std::string& name, std::size_t& left) {
  if (from.remove(name)) return;
  const auto folder = from.folder(name);
  if (folder && remove_all_in(*folder, 0, left)) (void)from.remove_folder(name);
}

}  // namespace spotter::guard
