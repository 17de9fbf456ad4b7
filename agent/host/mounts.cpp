#include "agent/host/mounts.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "agent/aws/formats/s3.hpp"
#include "agent/host/verb.hpp"
#include "agent/io/safe_directory.hpp"

namespace spotter::act::host {
namespace {

// mountinfo writes space, tab, newline and backslash as \ooo.
std::string unescape(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const char* const digits = text.data() + i + 1;
    const bool escape = text[i] == '\\' && i + 3 < text.size() &&
                        std::from_chars(digits, digits + 3, byte, 8).ptr == digits + 3;
    result += escape ? static_cast<char>(byte) : text[i];
    if (escape) i += 3;
  }
  return result;
}

// 36 35 98:0 /root /mnt rw,noatime master:1 - xfs /dev/nvme1n1 rw,...
std::optional<MountEntry> parse(const std::string& line) {
  std::istringstream words(line);
  std::string id, parent, device, root, point, options, word;
  if (!(words >> id >> parent >> device >> root >> point >> options)) return std::nullopt;
  while (words >> word && word != "-") {
  }
  MountEntry entry;
  std::string source, super_options;
  if (!(words >> entry.filesystem >> source >> super_options)) return std::nullopt;
  unsigned major_number = 0, minor_number = 0;
  if (std::sscanf(device.c_str(), "%u:%u", &major_number, &minor_number) != 2) return std::nullopt;
  entry.device = makedev(major_number, minor_number);
  entry.mount_point = unescape(point);
  entry.source = unescape(source);
  const auto read_only = [](const std::string& list) {
    return list.substr(0, 3) == "ro," || list == "ro";
  };
  entry.read_only = read_only(options) || read_only(super_options);
  return entry;
}

// The device behind a link of /proc, without waking a network file system.
std::optional<dev_t> device_behind(const fs::path& path) {
  struct statx status {};
  if (::statx(AT_FDCWD, path.c_str(), AT_STATX_DONT_SYNC, STATX_TYPE, &status) != 0)
    return std::nullopt;
  return makedev(status.stx_dev_major, status.stx_dev_minor);
}

std::string target_of(const fs::path& link) {
  std::error_code error;
  const auto target = fs::read_symlink(link, error);
  return error ? "a file" : target.string();
}

std::string open_file_of(const fs::path& process, dev_t device) {
  std::error_code error;
  for (fs::directory_iterator at(process / "fd", error), end; !error && at != end;
       at.increment(error)) {
    if (device_behind(at->path()) == device) return "has " + target_of(at->path()) + " open";
  }
  return {};
}

std::string mapping_of(const fs::path& process, dev_t device) {
  std::ifstream maps(process / "maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned major_number = 0, minor_number = 0;
    if (std::sscanf(line.c_str(), "%*s %*s %*s %x:%x", &major_number, &minor_number) == 2 &&
        major_number + minor_number != 0 && makedev(major_number, minor_number) == device) {
      return "has a file of it mapped";
    }
  }
  return {};
}

std::string use_of(const fs::path& process, dev_t device) {
  for (const auto& [link, words] :
       {std::pair{"cwd", "works in "}, std::pair{"root", "has its root in "},
        std::pair{"exe", "runs "}}) {
    if (device_behind(process / link) == device) return words + target_of(process / link);
  }
  if (auto use = open_file_of(process, device); !use.empty()) return use;
  return mapping_of(process, device);
}

bool in_our_namespace(const fs::path& process) {
  std::error_code error;
  const auto theirs = fs::read_symlink(process / "ns/mnt", error);
  return error || theirs == fs::read_symlink("/proc/self/ns/mnt", error);
}

bool mounted_for(const fs::path& process, dev_t device) {
  const auto entries = mounts(process / "mountinfo");
  return std::any_of(entries.begin(), entries.end(),
                     [device](const MountEntry& entry) { return entry.device == device; });
}

std::string name_of(const fs::path& process) {
  std::ifstream file(process / "comm");
  std::string name;
  std::getline(file, name);
  return (name.empty() ? "a process" : name) + " (pid " + process.filename().string() + ")";
}

// False: see errno. The kernel's name of a mount point has no link in it: where a link has come
// since, which could lead to somebody else's mount, nothing is unmounted (ELOOP).
bool unmount_at(const fs::path& point, int flags) {
  const fs::path parent = point.parent_path();
  const io::Descriptor opened(::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return false;
  const std::string handle = "/proc/self/fd/" + std::to_string(opened.get());
  std::error_code error;
  if (fs::read_symlink(handle, error) != parent) {
    errno = ELOOP;
    return false;
  }
  return ::umount2((handle + "/" + point.filename().string()).c_str(), flags) == 0;
}

Result<io::Descriptor> mount_view(const io::SafeDirectory& at, const std::string& name,
                                  const User& user) {
  io::Descriptor device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!device)
    return failure(std::string("mode fast_file needs /dev/fuse: ") + std::strerror(errno) +
                   " (modprobe fuse)");
  const std::string options = "fd=" + std::to_string(device.get()) +
                              ",rootmode=40000,user_id=" + std::to_string(user.uid) +
                              ",group_id=" + std::to_string(user.gid) + ",default_permissions";
  const std::string place = "/proc/self/fd/" + std::to_string(at.descriptor());
  constexpr unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOATIME;
  if (::mount(("spotter:" + name).c_str(), place.c_str(), "fuse.spotter", flags, options.c_str()) !=
      0)
    return failure("the channel " + name + " cannot be mounted: " + std::strerror(errno));
  return device;
}

// Made, opened and judged with the user's rights: on a share root may have none, and the server may
// show another number as the owner. A folder of somebody else is not covered.
Result<io::SafeDirectory> own_folder(const User& user, const fs::path& home,
                                     const std::string& below) {
  const AsUser as(user);
  const std::string name = (home / below).string();
  TRY(behind(name, io::make_directories(name, 0755)));
  const auto opened = TRY(behind(home.string(), io::SafeDirectory::open(home)));
  auto at = TRY(behind(name, opened.folder(below)));
  if (!at.may_change()) return failure(name + " is not " + user.name + "'s to change");
  return at;
}

}  // namespace

std::vector<MountEntry> mounts(const fs::path& mountinfo) {
  std::vector<MountEntry> entries;
  std::ifstream file(mountinfo);
  for (std::string line; std::getline(file, line);) {
    if (auto entry = parse(line)) entries.push_back(std::move(*entry));
  }
  return entries;
}

fs::path mount_name(const fs::path& mount_point) {
  std::error_code error;
  auto path = fs::absolute(mount_point, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const auto parent = fs::weakly_canonical(path.parent_path(), error);
  return error ? path : parent / path.filename();
}

std::optional<MountEntry> mount_at(const fs::path& mount_point) {
  const auto name = mount_name(mount_point).string();
  auto entries = mounts();
  const auto found = std::find_if(entries.rbegin(), entries.rend(), [&](const MountEntry& entry) {
    return entry.mount_point == name;
  });
  if (found == entries.rend()) return std::nullopt;
  return std::move(*found);
}

std::vector<std::string> holders(dev_t device, std::size_t limit) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at("/proc", error), end; !error && at != end && found.size() < limit;
       at.increment(error)) {
    const auto& process = at->path();
    const auto number = process.filename().string();
    if (number.find_first_not_of("0123456789") != number.npos) continue;
    auto use = use_of(process, device);
    if (use.empty() && !in_our_namespace(process) && mounted_for(process, device))
      use = "has it mounted in a mount namespace of its own";
    if (!use.empty()) found.push_back(name_of(process) + " " + use);
  }
  return found;
}

std::size_t detach_views(const fs::path& home, const fs::path& below) {
  std::error_code error;
  const fs::path there = fs::weakly_canonical(home, error);  // "": it does not answer
  const std::string name = below.empty() ? mount_name(home) : (error ? home : there) / below;
  auto entries = mounts();
  std::erase_if(entries, [&](const MountEntry& entry) {
    return entry.filesystem != "fuse.spotter" ||
           (entry.mount_point != name && !entry.mount_point.starts_with(name + "/"));
  });
  std::reverse(entries.begin(), entries.end());
  for (const auto& entry : entries) {
    const auto& point = entry.mount_point;
    // MNT_FORCE: what waits for an answer gets an error, whoever still holds the descriptor.
    if (unmount_at(point, MNT_FORCE | MNT_DETACH | UMOUNT_NOFOLLOW)) continue;
    // A user may unmount what that user has mounted, with this program's help.
    if (errno == EPERM) (void)run_tool({{"fusermount3", "-u", "-z", "-q", "--", point}}, "fuse3");
  }
  return entries.size();
}

Result<std::vector<io::Descriptor>> mount_views(const Views& views) {
  const auto user = TRY(find_user(views.user));
  std::vector<io::Descriptor> mounted;
  for (const std::string& name : views.names) {
    const std::string below = views.folder + "/" + name;
    detach_views(views.home, below);  // of an earlier start
    const auto at = TRY(own_folder(user, views.home, below));
    mounted.push_back(TRY(mount_view(at, name, user)));
  }
  return mounted;
}

std::vector<MountedView> mounted_views() {
  const char* given = std::getenv("SPOTTER_VIEWS");
  std::istringstream words(given == nullptr ? "" : given);
  std::vector<MountedView> views;
  for (std::string word; words >> word;) {
    const auto colon = word.find(':');
    const auto number = wire::parse_count(word.substr(0, colon));
    if (colon != word.npos && number.value_or(0) > STDERR_FILENO)
      views.push_back({static_cast<int>(*number), word.substr(colon + 1)});
  }
  return views;
}

}  // namespace spotter::act::host
