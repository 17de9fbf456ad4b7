#include "agent/supervise/children.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "agent/supervise/processes.hpp"

namespace spotter::supervise {
namespace {

constexpr int rounds_to_look_at_all_again = 64;  // pids are reused

struct Seen {
  bool unknown = false;  // it exists, and cannot be read
  char state = '?';
  pid_t parent = 0;
  std::uint64_t start_ticks = 0;
};

// Includes ended processes. Uses no stream: it has to be faster than a process that forks and ends.
Seen see(pid_t pid) {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/stat", pid);
  Seen seen;
  const int file = open(path.data(), O_RDONLY | O_CLOEXEC);
  seen.unknown = file < 0 && errno != ENOENT && errno != ESRCH;
  if (file < 0) return seen;
  std::array<char, 1024> text{};
  const ssize_t size = read(file, text.data(), text.size() - 1);
  close(file);
  const char* at = size > 0 ? std::strrchr(text.data(), ')') : nullptr;  // comm may hold anything
  if (at == nullptr) return seen;
  seen.state = at[2];
  seen.parent = static_cast<pid_t>(std::strtol(at + 3, nullptr, 10));
  constexpr int spaces_before_start = 20;  // proc(5): the 22nd field, comm is the second
  for (int space = 0; space < spaces_before_start && at != nullptr; ++space)
    at = std::strchr(at + 1, ' ');
  seen.start_ticks = at == nullptr ? 0 : std::strtoull(at, nullptr, 10);
  return seen;
}

// False: /proc cannot be read. `visit` returns whether to continue.
template <class Visit>
bool each_process(Visit visit) {
  DIR* directory = opendir("/proc");
  if (directory == nullptr) return false;
  for (bool more = true; more;) {
    const dirent* entry = readdir(directory);
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc() && end == name.data() + name.size()) more = visit(pid);
  }
  closedir(directory);
  return true;
}

}  // namespace

bool has_no_descendants(pid_t except) {
  bool found = false;
  const bool looked = each_process([&found, except, self = getpid()](pid_t pid) {
    const Seen seen = pid == except ? Seen() : see(pid);
    found = seen.unknown || seen.parent == self;
    return !found;
  });
  return looked && !found;
}

Children::Children(pid_t except) : except_(except) {
  const auto self = find_process(getpid());
  since_ = self ? self->start_ticks : 0;
}

std::size_t Children::kill() {
  if (++rounds_ % rounds_to_look_at_all_again == 0) foreign_.clear();
  std::size_t fresh = 0;
  each_process([&, self = getpid()](pid_t pid) {
    if (pid == except_ || foreign_.contains(pid)) return true;
    const Seen seen = see(pid);
    if (seen.parent == self && seen.state != 'Z') {
      ::kill(pid, SIGKILL);
      if (found_.insert(pid).second) ++fresh;
    }
    if (seen.parent != 0 && seen.parent != self && seen.start_ticks < since_) foreign_.insert(pid);
    return true;
  });
  return fresh;
}

}  // namespace spotter::supervise
