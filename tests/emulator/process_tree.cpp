#include "tests/emulator/process_tree.hpp"

#include <dirent.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

namespace spotter::emulator {
namespace {

struct Process {
  pid_t parent = 0;
  char state = '?';
};

// Fields 3 and 4 of /proc/PID/stat stand after the last ')': the name may hold anything.
bool read_process(pid_t pid, Process& process) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return false;
  const auto after_name = line.rfind(") ");
  return after_name != std::string::npos &&
         std::sscanf(line.c_str() + after_name + 2, "%c %d", &process.state, &process.parent) == 2;
}

std::map<pid_t, Process> all_processes() {
  std::map<pid_t, Process> result;
  DIR* const directory = ::opendir("/proc");
  if (directory == nullptr) return result;
  while (const dirent* entry = ::readdir(directory)) {
    const pid_t pid = std::atoi(entry->d_name);
    Process process;
    if (pid > 0 && read_process(pid, process)) result[pid] = process;
  }
  ::closedir(directory);
  return result;
}

void pause_briefly() {
  const timespec millisecond{0, 1'000'000};
  ::nanosleep(&millisecond, nullptr);
}

bool can_run(pid_t pid) {
  Process process;
  return read_process(pid, process) &&
         std::string("TtZXx").find(process.state) == std::string::npos;
}

}  // namespace

std::vector<pid_t> descendants(pid_t root) {
  const auto processes = all_processes();
  std::vector<pid_t> found;
  for (const auto& [pid, process] : processes) {
    pid_t ancestor = pid == root ? 0 : process.parent;
    while (ancestor > 1 && ancestor != root) {
      const auto above = processes.find(ancestor);
      ancestor = above == processes.end() ? 0 : above->second.parent;
    }
    if (ancestor == root && root != 0) found.push_back(pid);
  }
  return found;
}

pid_t parent_of(pid_t pid) {
  Process process;
  return read_process(pid, process) ? process.parent : 0;
}

bool is_alive(pid_t pid) {
  Process process;
  return read_process(pid, process) && process.state != 'Z' && process.state != 'X';
}

std::vector<pid_t> freeze(pid_t root) {
  std::vector<pid_t> stopped;
  for (int round = 0; round < 1000; ++round) {
    bool settled = true;
    for (const pid_t pid : descendants(root)) {
      if (std::find(stopped.begin(), stopped.end(), pid) == stopped.end()) {
        settled = false;
        stopped.push_back(pid);
        ::kill(pid, SIGSTOP);
      } else if (can_run(pid)) {
        settled = false;
      }
    }
    if (settled) break;
    pause_briefly();
  }
  return stopped;
}

void thaw(const std::vector<pid_t>& processes) {
  for (const pid_t pid : processes) ::kill(pid, SIGCONT);
}

void kill_tree(pid_t root) {
  const bool itself = root == ::getpid();
  if (!itself) ::kill(root, SIGSTOP);
  for (const pid_t pid : freeze(root)) ::kill(pid, SIGKILL);
  if (!itself) ::kill(root, SIGKILL);
}

void signal_tree(pid_t root, int signal) {
  for (const pid_t pid : descendants(root)) ::kill(pid, signal);
}

}  // namespace spotter::emulator
