#include "agent/host/own.hpp"

#include <unistd.h>

#include "agent/host/user.hpp"

namespace spotter::act::host {

namespace fs = std::filesystem;

bool is_ours(const struct stat& status) {
  return status.st_uid == 0 || ::geteuid() != 0 || AsUser::active();
}

Result<io::Beneath> open_own(const io::Beneath& home) {
  const auto path = (home.path() / own_directory).string();
  auto opened = home.folder(own_directory);
  if (!opened) {
    const auto error = opened.error();
    if (error == std::errc::no_such_file_or_directory)
      return fail("not-mounted", "there is no " + path + "; mount the job's storage first");
    if (error == std::errc::not_a_directory || error.value() == ELOOP)
      return fail("layout-unusable", path + " is not a directory; move it away");
    return fail_errno(error, "cannot open " + path);
  }
  const auto status = opened->status();
  if (!status) return fail_errno(status.error(), "cannot look at " + path);
  if (!is_ours(*status)) {
    return fail("layout-unusable", path + " belongs to the user " + std::to_string(status->st_uid) +
                                       ", not to root: what it says is not believed. If you know "
                                       "that Spotter made it, give it to root (chown -R 0:0), else "
                                       "move it away");
  }
  return *std::move(opened);
}

Result<io::Beneath> open_own(const fs::path& home) {
  const auto opened = io::Beneath::open(home);
  if (!opened && opened.error() == std::errc::no_such_file_or_directory)
    return fail("not-mounted", "there is no " + home.string() + "; mount the job's storage first");
  if (!opened) return fail_errno(opened.error(), "cannot open " + home.string());
  return open_own(*opened);
}

}  // namespace spotter::act::host
