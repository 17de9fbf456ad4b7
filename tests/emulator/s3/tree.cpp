#include "tests/emulator/s3/tree.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>

#include "tests/world/s3/request.hpp"

namespace spotter::emulator::s3 {
namespace {

constexpr std::size_t most_known = 10'000;
// Two changes within one tick of the file system's clock leave one time: such a picture may already
// be old.
constexpr std::int64_t settled = 100'000'000;

std::int64_t nanoseconds(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

std::vector<std::string> read_names(const std::string& directory) {
  std::vector<std::string> names;
  DIR* const stream = ::opendir(directory.c_str());
  if (stream == nullptr) return names;
  while (const dirent* entry = ::readdir(stream)) {
    std::string name = entry->d_name;
    if (name == "." || name == ".." || !world::s3::is_utf8(name)) continue;
    unsigned char type = entry->d_type;
    struct stat status {};
    if (type == DT_UNKNOWN && ::lstat((directory + "/" + name).c_str(), &status) == 0)
      type = S_ISREG(status.st_mode) ? DT_REG : S_ISDIR(status.st_mode) ? DT_DIR : DT_UNKNOWN;
    if (type == DT_DIR) name += '/';
    if (type == DT_DIR || type == DT_REG) names.push_back(std::move(name));
  }
  ::closedir(stream);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Names Directories::names(const std::string& directory) {
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0)
    return std::make_shared<const std::vector<std::string>>();
  Known now{status.st_ino, nanoseconds(status.st_mtim), nullptr};
  {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(directory);
    if (found != known_.end() && found->second.inode == now.inode &&
        found->second.changed == now.changed)
      return found->second.names;
  }
  timespec clock{};
  ::clock_gettime(CLOCK_REALTIME, &clock);
  now.names = std::make_shared<const std::vector<std::string>>(read_names(directory));
  const std::lock_guard lock(mutex_);
  if (nanoseconds(clock) - now.changed < settled) return now.names;
  if (known_.size() >= most_known) known_.clear();
  return (known_[directory] = std::move(now)).names;
}

const std::vector<std::string>& Tree::names(const std::string& directory) {
  auto& seen = seen_[directory];
  if (!seen) seen = directories_.names(folder_ + "/" + directory);
  return *seen;
}

std::optional<std::string> Tree::at_or_after(const std::string& key) { return first_in("", key); }

// `directory`: relative, ends with '/' unless empty.
std::optional<std::string> Tree::first_in(const std::string& directory, const std::string& from) {
  const auto& all = names(directory);
  const std::string rest = from > directory ? from.substr(directory.size()) : "";
  auto at = std::lower_bound(all.begin(), all.end(), rest);
  if (at != all.begin() && std::prev(at)->ends_with('/') && rest.starts_with(*std::prev(at))) --at;
  for (; at != all.end(); ++at) {
    const std::string path = directory + *at;
    if (!at->ends_with('/')) return path;
    if (auto found = first_in(path, std::max(from, path))) return found;
  }
  return std::nullopt;
}

}  // namespace spotter::emulator::s3
