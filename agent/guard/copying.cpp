#include "agent/guard/copying.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "agent/guard/zip.hpp"
#include "trainer/checkpoint/files.hpp"
#include "trainer/checkpoint/manifest.hpp"

namespace spotter::guard {
namespace {

constexpr std::uint64_t piece_size = 4U << 20;

bool has_room(int file, std::uint64_t bytes) {
  struct statvfs volume {};
  if (::fstatvfs(file, &volume) != 0) return false;
  return std::uint64_t{volume.f_bavail} * volume.f_frsize >= 2 * bytes;
}

bool copy_bytes(int from, int to, std::uint64_t bytes) {
  if (::ioctl(to, FICLONE, from) == 0) return true;
  if (!has_room(to, bytes)) {
    errno = ENOSPC;
    return false;
  }
  off_t at = 0;
  off_t target = 0;
  for (std::uint64_t left = bytes; left > 0;) {
    const ssize_t copied = ::copy_file_range(from, &at, to, &target, left, 0);
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) return false;
    left -= static_cast<std::uint64_t>(copied);
  }
  return true;
}

}  // namespace

Result<std::string> sum_of_file(int file, std::uint64_t bytes) {
  checkpoint::Sum sum;
  for (std::uint64_t at = 0; at < bytes;) {
    const auto piece = read_at(file, at, std::min(piece_size, bytes - at));
    if (!piece) return failure("a file became shorter while it was read, or cannot be read");
    sum.add(*piece);
    at += piece->size();
  }
  return sum.hex();
}

Result<void> copy_file(int from, const struct stat& status, const std::filesystem::path& target) {
  const std::filesystem::path beside = target.string() + ".new";
  ::unlink(beside.c_str());
  const checkpoint::Descriptor to(
      ::open(beside.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!to) return checkpoint::system_failure("cannot make", beside);
  const timespec times[2] = {status.st_atim, status.st_mtim};
  const bool owned = ::geteuid() != 0 || ::fchown(to.get(), status.st_uid, status.st_gid) == 0;
  const bool good = copy_bytes(from, to.get(), static_cast<std::uint64_t>(status.st_size)) &&
                    owned && ::fchmod(to.get(), status.st_mode & 07777) == 0 &&
                    ::futimens(to.get(), times) == 0 && ::fsync(to.get()) == 0 &&
                    ::rename(beside.c_str(), target.c_str()) == 0;
  if (good) return {};
  auto failed = checkpoint::system_failure("cannot copy to", target);
  ::unlink(beside.c_str());
  return failed;
}

}  // namespace spotter::guard
