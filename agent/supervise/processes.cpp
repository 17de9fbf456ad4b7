#include "agent/supervise/processes.hpp"

#include <dirent.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <sstream>
#include <thread>

#include "agent/supervise/run_directory.hpp"

namespace spotter::supervise {
namespace {

// Empty: there is no such process, or it ended while it was read (ESRCH: a stream throws).
std::string read_proc(pid_t pid, const char* name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.bad() ? std::string() : text.str();
}

constexpr unsigned long exiting_flag = 0x4;  // PF_EXITING of <linux/sched.h>

// proc(5): pid (comm) state ppid pgrp session tty tpgid flags ..., starttime is the 22nd. comm may
// hold anything.
std::optional<Process> parse_stat(pid_t pid, const std::string& stat) {
  const auto open = stat.find('(');
  const auto close = stat.rfind(')');
  if (open == stat.npos || close == stat.npos) return std::nullopt;
  Process process{.pid = pid, .name = stat.substr(open + 1, close - open - 1)};
  std::istringstream rest(stat.substr(close + 1));
  pid_t group = 0;
  rest >> process.state >> process.parent >> group >> process.session;
  std::string skipped;
  unsigned long flags = 0;
  rest >> skipped >> skipped >> flags;
  process.exiting = (flags & exiting_flag) != 0;
  constexpr int fields_between_flags_and_start = 12;
  for (int i = 0; i < fields_between_flags_and_start; ++i) rest >> skipped;
  rest >> process.start_ticks;
  if (!rest || process.state == 'Z' || process.state == 'X') return std::nullopt;
  return process;
}

// The program that a process runs. Where root lacks CAP_SYS_PTRACE, as in a systemd unit, it has to
// read this with the process's own user id.
std::string program_of(pid_t pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  const std::string link = process + "/exe";
  char target[256];
  ssize_t size = readlink(link.c_str(), target, sizeof target);
  struct stat owner {};
  if (size < 0 && errno == EACCES && stat(process.c_str(), &owner) == 0) {
    setfsgid(owner.st_gid);
    setfsuid(owner.st_uid);
    size = readlink(link.c_str(), target, sizeof target);
    setfsuid(geteuid());
    setfsgid(getegid());
  }
  return {target, size > 0 ? static_cast<std::size_t>(size) : 0};
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
  const std::string status = read_proc(pid, "status");
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

}  // namespace

std::optional<Process> find_process(pid_t pid) { return parse_stat(pid, read_proc(pid, "stat")); }

std::vector<Process> all_processes() {
  std::vector<Process> processes;
  DIR* directory = opendir("/proc");
  if (directory == nullptr) return processes;
  while (const dirent* entry = readdir(directory)) {
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    if (auto process = find_process(pid)) processes.push_back(*std::move(process));
  }
  closedir(directory);
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

}  // namespace spotter::supervise
