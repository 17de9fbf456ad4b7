#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <optional>
#include <thread>

#include "agent/host/device.hpp"
#include "agent/host/inspect.hpp"
#include "agent/host/mount.hpp"
#include "agent/host/mounts.hpp"
#include "agent/host/views.hpp"
#include "agent/io/descriptor.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto try_every = 100ms;
constexpr std::size_t named_holders = 8;
constexpr int stacked_limit =
    4;  // mounts of ours on top of one another, by an older agent's mistake

Result<bool> unlink_directory(const fs::path& name) {
  std::error_code error;
  // Only a symlink to a directory that carries the marker is a mount of ours.
  if (!fs::exists(fs::read_symlink(name, error) / directory_marker, error)) return false;
  if (!fs::remove(name, error))
    return fail_errno(error, "cannot remove " + name.string(), "unmount-failed");
  return true;
}

tl::unexpected<Error> busy(const fs::path& name, dev_t device) {
  std::string words;
  for (const auto& holder : holders(device, named_holders)) {
    words += (words.empty() ? "" : "; ") + holder;
  }
  if (words.empty())
    words =
        "no process is seen to use it (a loop device or swap file on it, or an unmount "
        "that has not ended?)";
  return fail("mount-busy", name.string() + " cannot be unmounted: " + words);
}

Result<void> unmount_top(const fs::path& name, dev_t device, Clock::time_point until) {
  for (;;) {
    if (::umount2(name.c_str(), UMOUNT_NOFOLLOW) == 0) return {};
    const int error = errno;
    if (error == EINVAL) return {};  // no mount point any more
    if (error != EBUSY)
      return fail_errno(error, "cannot unmount " + name.string(), "unmount-failed");
    if (Clock::now() >= until) return busy(name, device);
    std::this_thread::sleep_for(try_every);
  }
}

// Another mount namespace may hold a copy of the mount, and then the disk is not free to be
// detached.
Result<void> await_release(const fs::path& node, std::optional<dev_t> device, const fs::path& name,
                           Clock::time_point until) {
  struct stat status {};
  if (::stat(node.c_str(), &status) != 0 || !S_ISBLK(status.st_mode) ||
      (device && status.st_rdev != *device)) {
    return {};  // the node is gone or another's: nothing to prove it with
  }
  for (;;) {
    const io::Descriptor claim(::open(node.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
    if (claim || errno != EBUSY) return {};
    if (Clock::now() >= until) return busy(name, status.st_rdev);
    std::this_thread::sleep_for(try_every);
  }
}

}  // namespace

Result<bool> unmount(const fs::path& mount_point, std::chrono::milliseconds wait,
                     const fs::path& device) {
  const auto name = mount_name(mount_point);
  std::error_code error;
  const bool is_link = fs::is_symlink(fs::symlink_status(name, error));
  // A trainer that was killed cannot have done it, and they would keep the volume busy.
  detach_views(is_link ? fs::weakly_canonical(name, error) : name);
  if (is_link) return unlink_directory(name);
  const auto entry = mount_at(name);
  const auto until = Clock::now() + wait;
  const auto proof = [&]() -> Result<void> {
    return device.empty() ? Result<void>() : await_release(device, std::nullopt, name, until);
  };
  if (!entry) {
    if (const auto free = proof(); !free) return tl::unexpected<Error>(free.error());
    return false;
  }
  const auto synced = sync(name);
  for (int i = 0; i < stacked_limit; ++i) {
    const auto there = mount_at(name);
    if (!there || there->device != entry->device) break;
    if (const auto done = unmount_top(name, entry->device, until); !done) {
      return tl::unexpected<Error>(done.error());
    }
  }
  if (const auto free = await_release(entry->source, entry->device, name, until); !free) {
    return tl::unexpected<Error>(free.error());
  }
  if (const auto free = proof(); !free) return tl::unexpected<Error>(free.error());
  if (!synced) {
    return fail("sync-failed", synced.error().message + "; " + name.string() +
                                   " is unmounted, but what was written last may be lost");
  }
  return true;
}

Result<bool> unmount(const verbs::Unmount& request, const Machine& machine) {
  fs::path device;
  if (!request.volume.empty()) {
    auto found = find_device({request.volume, request.hint, 0ms}, machine);
    if (!found && found.error().kind != "device-absent")
      return tl::unexpected<Error>(found.error());
    if (found) device = *std::move(found);
  }
  auto done = unmount(request.mount_point, request.wait, device);
  if (done) remove_link(request.link, request.mount_point);
  return done;
}

void remove_link(const fs::path& link, const fs::path& mount_point) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  if (!error && target.parent_path() == mount_point) fs::remove(link, error);
}

}  // namespace spotter::act::host
