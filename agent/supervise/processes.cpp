#include "agent/supervise/processes.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "agent/base/text.hpp"
#include "agent/supervise/run_directory.hpp"

namespace spotter::supervise {
namespace {

constexpr std::uint64_t exiting_flag = 0x4;  // PF_EXITING of <linux/sched.h>

// Includes ended processes. Uses no stream: it has to be faster than a process that forks and ends.
// False: it exists, and cannot be read. If there is none, `seen` stays as it is.
bool see(pid_t pid, Process& seen) {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/stat", pid);
  const int file = open(path.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno == ENOENT || errno == ESRCH;
  std::array<char, 1024> text{};
  const ssize_t size = read(file, text.data(), text.size() - 1);
  close(file);
  char* name = size > 0 ? std::strchr(text.data(), '(') : nullptr;
  char* at = size > 0 ? std::strrchr(text.data(), ')') : nullptr;  // comm may hold anything
  if (name == nullptr || at == nullptr || at < name) return true;
  seen.pid = pid;
  seen.name.assign(name + 1, at);
  seen.state = at[2];
  at += 3;
  // proc(5), from the fourth on: ppid pgrp session tty tpgid flags, four counts of faults, utime
  // stime cutime cstime priority nice threads itrealvalue starttime
  std::array<std::uint64_t, 19> fields{};
  for (std::uint64_t& field : fields) field = std::strtoull(at, &at, 10);
  seen.parent = static_cast<pid_t>(fields[0]);
  seen.session = static_cast<pid_t>(fields[2]);
  seen.exiting = (fields[5] & exiting_flag) != 0;
  seen.used_ticks = fields[10] + fields[11] + fields[12] + fields[13];
  seen.start_ticks = fields[18];
  return true;
}

// Root without CAP_SYS_PTRACE, as in a systemd unit, has to read some things of a process with its
// own user id.
class AsOwner : Pinned {
 public:
  explicit AsOwner(const std::string& process) {
    struct stat owner {};
    if (geteuid() != 0 || stat(process.c_str(), &owner) != 0) return;
    setfsgid(owner.st_gid);
    setfsuid(owner.st_uid);
  }
  ~AsOwner() {
    setfsuid(geteuid());
    setfsgid(getegid());
  }
};

// The program that a process runs.
std::string program_of(pid_t pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  const std::string link = process + "/exe";
  char target[256];
  ssize_t size = readlink(link.c_str(), target, sizeof target);
  if (size < 0 && errno == EACCES) {
    const AsOwner owner(process);
    size = readlink(link.c_str(), target, sizeof target);
  }
  return {target, size > 0 ? static_cast<std::size_t>(size) : 0};
}

// Flags of open(2) of each descriptor with which the process has the file open. None: that cannot
// be known.
std::optional<std::vector<int>> flags_of(pid_t pid, const struct stat& file) {
  const std::string process = "/proc/" + std::to_string(pid);
  const AsOwner owner(process);
  std::unique_ptr<DIR, int (*)(DIR*)> opened(opendir((process + "/fd").c_str()), closedir);
  if (!opened) return std::nullopt;
  std::vector<int> flags;
  while (const dirent* each = readdir(opened.get())) {
    struct stat its {};
    if (stat((process + "/fd/" + each->d_name).c_str(), &its) != 0 || its.st_dev != file.st_dev ||
        its.st_ino != file.st_ino)
      continue;
    std::ifstream info(process + "/fdinfo/" + each->d_name);
    std::string word;
    while (info >> word && word != "flags:") continue;
    int number = 0;
    if (!(info >> std::oct >> number)) return std::nullopt;
    flags.push_back(number);
  }
  return flags;
}

bool is_shell(pid_t pid) {
  const std::string program = program_of(pid);
  if (program.empty()) return false;
  std::string_view name(program);
  name.remove_prefix(name.rfind('/') + 1);
  constexpr const char* shells[] = {"sh", "bash", "dash", "zsh", "ksh", "ksh93", "mksh", "fish"};
  return std::find(std::begin(shells), std::end(shells), name) != std::end(shells);
}

bool in_signal_set(const std::string& status, std::string_view field, int signal) {
  const auto at = status.find(field);
  if (at == status.npos) return false;
  const auto start = status.find_first_not_of(" \t", at + field.size());
  std::uint64_t set = 0;
  std::from_chars(status.data() + start, status.data() + status.size(), set, 16);
  return (set >> (signal - 1) & 1) != 0;
}

bool traps_or_ignores(pid_t pid, int signal) {
  const std::string name = "/proc/" + std::to_string(pid) + "/status";
  const std::string status = io::read_file(name, 64U << 10).value_or("");
  return in_signal_set(status, "SigCgt:", signal) || in_signal_set(status, "SigIgn:", signal);
}

void signal_below(const std::vector<Process>& processes, pid_t pid, int signal, int depth) {
  constexpr int deepest = 16;
  std::vector<Process> children;
  for (const auto& each : processes)
    if (each.parent == pid && each.name != "tee") children.push_back(each);
  const bool stand_in = depth < deepest && !children.empty() && is_shell(pid) &&
                        (signal == SIGINT || !traps_or_ignores(pid, signal));
  if (!stand_in || signal == SIGINT) ::kill(pid, signal);
  if (!stand_in) return;
  for (const auto& child : children) signal_below(processes, child.pid, signal, depth + 1);
}

constexpr int rounds_to_look_at_all_again = 64;  // pids are reused

// False: /proc cannot be read. `visit` returns whether to continue.
template <class Visit>
bool each_process(Visit visit) {
  DIR* directory = opendir("/proc");
  if (directory == nullptr) return false;
  for (bool more = true; more;) {
    const dirent* entry = readdir(directory);
    if (entry == nullptr) break;
    if (const auto pid = number_of_text<pid_t>(entry->d_name)) more = visit(*pid);
  }
  closedir(directory);
  return true;
}

// The mount point of version 2: /sys/fs/cgroup, or a folder beside version 1.
std::string mount_point() {
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    if (line.find(" - cgroup2 ") == line.npos) continue;
    std::istringstream words(line);
    std::string skipped, root, point;
    words >> skipped >> skipped >> skipped >> root >> point;
    if (root == "/") return point;
  }
  return {};
}

std::string own_group(const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);)
    if (line.starts_with("0::/")) return line.substr(3);
  return {};
}

bool has_processes(const std::string& path) {
  std::ifstream events(path + "/cgroup.events");
  for (std::string line; std::getline(events, line);)
    if (line == "populated 1") return true;
  return false;
}

bool put(const std::string& file, std::string_view text) {
  const Descriptor to(open(file.c_str(), O_WRONLY | O_CLOEXEC));
  return to && write(to.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

}  // namespace

std::optional<Process> find_process(pid_t pid) {
  Process process;
  (void)see(pid, process);
  const bool lives = process.state != '?' && process.state != 'Z' && process.state != 'X';
  return lives ? std::optional(process) : std::nullopt;
}

std::string shown_sender(pid_t pid, uid_t user) {
  if (pid == 1) return "process 1 (systemctl, needrestart or a shutdown)";
  auto process = find_process(pid);
  if (process)  // whoever it is chose the name
    std::ranges::replace_if(
        process->name, [](unsigned char each) { return each < ' '; }, '?');
  return "process " + std::to_string(pid) + (process ? " (" + process->name + ")" : "") +
         " of user " + std::to_string(user);
}

std::vector<Process> all_processes() {
  std::vector<Process> processes;
  each_process([&processes](pid_t pid) {
    if (auto process = find_process(pid)) processes.push_back(*std::move(process));
    return true;
  });
  return processes;
}

std::vector<Process> descendants_of(pid_t ancestor, pid_t except) {
  const auto processes = all_processes();
  std::vector<Process> found;
  std::vector<pid_t> open{ancestor};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    for (const auto& each : processes) {
      if (each.parent != parent || each.pid == except) continue;
      found.push_back(each);
      open.push_back(each.pid);
    }
  }
  return found;
}

bool only_append(const std::vector<Process>& processes, const struct stat& file) {
  bool some = false;
  for (const Process& each : processes) {
    const auto flags = flags_of(each.pid, file);
    if (!flags && find_process(each.pid)) return false;
    for (const int one : flags.value_or(std::vector<int>())) {
      if ((one & O_ACCMODE) == O_RDONLY) continue;
      if ((one & O_APPEND) == 0) return false;
      some = true;
    }
  }
  return some;
}

void signal_descendants(pid_t ancestor, int signal, pid_t except) {
  for (const auto& each : descendants_of(ancestor, except)) ::kill(each.pid, signal);
}

void signal_main_process(pid_t trainer, int signal) {
  if (signal == SIGKILL || signal == SIGSTOP || signal == SIGCONT)
    ::kill(trainer, signal);
  else
    signal_below(all_processes(), trainer, signal, 0);
}

bool kill_session(pid_t leader, std::uint64_t leader_start_ticks,
                  std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds pause(10);
  for (auto left = patience; left >= pause; left -= pause) {
    // The kernel does not reuse the leader's pid while a process is in the session.
    const auto now = find_process(leader);
    if (now && now->start_ticks != leader_start_ticks) return true;
    bool any = false;
    for (const auto& each : all_processes()) {
      if (each.session != leader) continue;
      any = true;
      ::kill(each.pid, SIGKILL);
    }
    if (!any) return true;
    std::this_thread::sleep_for(pause);
  }
  return false;
}

bool has_no_descendants(pid_t except) {
  bool found = false;
  const bool looked = each_process([&found, except, self = getpid()](pid_t pid) {
    Process seen;
    found = pid != except && (!see(pid, seen) || seen.parent == self);
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
    Process seen;
    (void)see(pid, seen);
    if (seen.parent == self && seen.state != 'Z') {
      ::kill(pid, SIGKILL);
      if (found_.insert(pid).second) ++fresh;
    }
    if (seen.parent != 0 && seen.parent != self && seen.start_ticks < since_) foreign_.insert(pid);
    return true;
  });
  return fresh;
}

std::string make_control_group() {
  const std::string mount = mount_point(), group = own_group("");
  if (mount.empty() || group.empty()) return {};
  std::string path = mount + (group == "/" ? "" : group) + "/spotter-trainer-" +
                     std::to_string(getpid()) + "-" + std::to_string(boottime_milliseconds());
  if (mkdir(path.c_str(), 0755) != 0) return {};
  if (access((path + "/cgroup.kill").c_str(), W_OK) == 0) return path;
  rmdir(path.c_str());
  return {};
}

bool enter_control_group(const std::string& path) { return put(path + "/cgroup.procs", "0"); }

void kill_control_group(const std::string& path) {
  if (!path.empty()) put(path + "/cgroup.kill", "1");
}

bool remove_control_group(const std::string& path, std::chrono::milliseconds patience) {
  if (path.empty()) return true;
  constexpr std::chrono::milliseconds pause(10);
  for (auto left = patience; left >= pause; left -= pause) {
    kill_control_group(path);
    if (rmdir(path.c_str()) == 0 || errno != EBUSY) return true;
    std::this_thread::sleep_for(pause);
  }
  return !has_processes(path);  // or another has made a group in it
}

std::uint64_t kills_for_want_of_memory(const std::string& root) {
  std::ifstream events(root + "/sys/fs/cgroup" + own_group(root) + "/memory.events");
  std::string name;
  for (std::uint64_t count = 0; events >> name >> count;)
    if (name == "oom_kill") return count;
  return 0;
}

}  // namespace spotter::supervise
