#include "agent/act/host/journal.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "agent/act/host/fd.hpp"

namespace spotter::act::host {
namespace {

constexpr off_t file_limit = 8 << 20;

}  // namespace

Outcome<void> keep_lines(const std::filesystem::path& home, std::string_view name,
                         std::string_view lines) {
  const auto folder = home / ".spotter";
  const auto path = folder / name;
  struct stat seen {};
  if (::lstat(path.c_str(), &seen) == 0 && seen.st_size >= file_limit &&
      ::rename(path.c_str(), (path.string() + ".1").c_str()) != 0)
    return fail_errno(errno, "cannot move " + path.string() + " aside");
  // What the boot said may hold what is nobody else's business.
  const mode_t mode = name == log_name ? 0600 : 0644;
  const Fd file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!file && errno == ENOENT) {
    return fail("not-mounted",
                "there is no " + folder.string() + "; mount the job's storage first");
  }
  if (!file) return fail_errno(errno, "cannot open " + path.string());
  while (!lines.empty()) {
    const auto put = ::write(file.get(), lines.data(), lines.size());
    if (put < 0 && errno != EINTR) return fail_errno(errno, "cannot write " + path.string());
    if (put > 0) lines.remove_prefix(static_cast<std::size_t>(put));
  }
  if (::fsync(file.get()) != 0) return fail_errno(errno, "cannot sync " + path.string());
  return {};
}

}  // namespace spotter::act::host
