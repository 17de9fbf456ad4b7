#include "agent/guard/place.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

namespace spotter::guard {
namespace {

namespace fs = std::filesystem;

constexpr int depth_limit = 32;
constexpr std::size_t files_limit = 100'000;  // each costs a look; more are no checkpoints
constexpr const char* own_directory = ".spotter";

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

// What JSON cannot hold as it is, the record cannot: not UTF-8, control characters, quotes.
bool is_plain(const std::string& text) {
  return text.find_first_of("\"\\") == std::string::npos &&
         nlohmann::json::accept("\"" + text + "\"");
}

// What openat2(2) does at once, where a sandbox forbids it because it cannot look into its
// arguments (RestrictSUIDSGID= of systemd.exec(5)).
Descriptor open_by_steps(int mount, const std::string& path, int flags) {
  struct stat home {};
  if (::fstat(mount, &home) != 0) return {};
  const auto refuse = [](int error) {
    errno = error;
    return Descriptor();
  };
  Descriptor at;
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find('/', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    const bool last = end == path.size();
    if (name == "..") return refuse(EXDEV);
    const int how = last ? flags : O_PATH | O_DIRECTORY | O_CLOEXEC;
    Descriptor next(
        ::openat(at ? at.get() : mount, name.empty() ? "." : name.c_str(), how | O_NOFOLLOW));
    struct stat seen {};
    if (!next || ::fstat(next.get(), &seen) != 0) return {};
    if (seen.st_dev != home.st_dev) return refuse(EXDEV);
    at = std::move(next);
    begin = end + 1;
  }
  return at;
}

}  // namespace

std::string last_component(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_out_of_place(int code) { return checkpoint::is_absence(code) || code == EXDEV; }

bool matches(const std::string& patterns, const std::string& path) {
  std::istringstream words(patterns);
  const std::string name = last_component(path);
  if (!is_plain(path)) return false;
  for (std::string pattern; words >> pattern;) {
    if (::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0) return true;
  }
  return false;
}

Found found(const std::string& name, const struct stat& status) {
  return {name, static_cast<std::uint64_t>(status.st_size),
          std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

Result<Place> Place::open(Where where) {
  Place place;
  auto mount = checkpoint::open_directory(where.mount);
  if (!mount) return tl::unexpected(mount.error());
  place.mount_ = *std::move(mount);
  place.where_ = std::move(where);
  return place;
}

Descriptor Place::open(const std::string& name, int flags) const {
  const std::string path = name.empty() ? where_.directory : shown(name);
  open_how how{};
  // A FIFO of that name must not hang us; with O_PATH nothing is opened at all.
  const int more = (flags & O_PATH) != 0 ? O_CLOEXEC : O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  how.flags = static_cast<std::uint64_t>(flags | more);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV;
  const auto opened = ::syscall(SYS_openat2, mount_.get(), path.c_str(), &how, sizeof how);
  if (opened < 0 && errno == ENOSYS) return open_by_steps(mount_.get(), path, flags | more);
  return Descriptor(static_cast<int>(opened));
}

Descriptor Place::open_parent(const std::string& name) const {
  const auto slash = name.rfind('/');
  return open(slash == std::string::npos ? "" : name.substr(0, slash), O_RDONLY | O_DIRECTORY);
}

Result<std::vector<Found>> Place::list(std::vector<std::string>* folders) const {
  std::vector<Found> files;
  if (auto walked = walk("", 0, files, folders); !walked) return tl::unexpected(walked.error());
  std::sort(files.begin(), files.end(),
            [](const Found& a, const Found& b) { return a.name < b.name; });
  return files;
}

Result<void> Place::walk(const std::string& folder, int depth, std::vector<Found>& files,
                         std::vector<std::string>* folders) const {
  Descriptor opened = open(folder, O_RDONLY | O_DIRECTORY);
  if (!opened && is_out_of_place(errno)) return {};
  if (!opened) return checkpoint::system_failure("cannot open", where_.mount / shown(folder));
  if (folders != nullptr) folders->push_back(folder);
  const std::unique_ptr<DIR, CloseDirectory> listing(::fdopendir(opened.get()));
  if (!listing) return checkpoint::system_failure("cannot list", where_.mount / shown(folder));
  const int fd = opened.release();
  // What is there and cannot be looked at is not gone: an incomplete list is none.
  for (errno = 0; const dirent* entry = ::readdir(listing.get()); errno = 0) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    const std::string path = folder.empty() ? name : folder + "/" + name;
    struct stat status {};
    if (::fstatat(fd, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;
      return checkpoint::system_failure("cannot look at", where_.mount / shown(path));
    }
    if (S_ISREG(status.st_mode) && matches(where_.files, name))
      files.push_back(found(path, status));
    if (files.size() > files_limit) {
      return failure("more than " + std::to_string(files_limit) + " files match '" + where_.files +
                     "' in " + where_.directory + "; give checkpoints.files a narrower pattern");
    }
    if (!S_ISDIR(status.st_mode) || depth >= depth_limit) continue;
    if (auto walked = walk(path, depth + 1, files, folders); !walked) return walked;
  }
  if (errno != 0) return checkpoint::system_failure("cannot list", where_.mount / shown(folder));
  return {};
}

fs::path Place::own(const std::string& name) const { return where_.mount / own_directory / name; }

Result<void> Place::make_own(const std::string& name) const {
  return checkpoint::make_directories(own(name));
}

}  // namespace spotter::guard
