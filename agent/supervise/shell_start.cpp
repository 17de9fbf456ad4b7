#include "agent/supervise/shell_start.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <tuple>

#include "agent/base/shell.hpp"

namespace spotter::supervise {
namespace {

constexpr const char* fifo_name = "shell-started";

std::string in_seconds(std::int64_t milliseconds) {
  return std::to_string(milliseconds / 1000) + " s";
}

}  // namespace

void ShellStart::prepare(const RunDirectory& directory, const Launch& launch) {
  shell_ = launch.shell;
  user_ = launch.account.name;
  path_ = directory.file(fifo_name);
  began_ = boottime_milliseconds();
  std::ignore = directory.remove(fifo_name);
  if (mkfifo(path_.c_str(), private_mode) != 0) return;
  // Opened before it is the user's: in the run directory nobody else can have changed the path.
  // Also for writing: with a reader alone, anybody who opens and closes it is reported as POLLHUP.
  fifo_ = Descriptor(open(path_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  const Account& owner = launch.account;
  if (fifo_ && geteuid() == 0 && fchown(fifo_.get(), owner.uid, owner.gid) != 0) fifo_.close();
  awaited_ = fifo_.get() >= 0;
  if (!awaited_) std::ignore = directory.remove(fifo_name);
}

// Appending works in all shells, also where files are not to be overwritten (noclobber). A shell
// without rights to it says so and goes on.
Launch ShellStart::marked(Launch launch) const {
  if (!is_awaited() || launch.arguments.empty()) return launch;
  std::string& command = launch.arguments.back();
  command = "echo >>" + wire::shell_quoted(path_) + "\n" + command;
  return launch;
}

int ShellStart::milliseconds_left(std::int64_t now) const {
  if (!is_awaited() || said_) return -1;
  const std::int64_t left = began_ + patience_ - now;
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX));
}

std::optional<std::string> ShellStart::look(bool readable, std::int64_t now) {
  if (!is_awaited()) return std::nullopt;
  if (readable) {
    end();
    if (!said_) return std::nullopt;
    return "the login shell " + shell_ + " has come to trainer.command after " +
           in_seconds(now - began_);
  }
  if (milliseconds_left(now) != 0) return std::nullopt;
  said_ = true;
  return "the login shell " + shell_ + " of user '" + user_ + "' runs for " +
         in_seconds(now - began_) +
         " and has not come to trainer.command: something in its profile (/etc/profile, "
         "/etc/profile.d, ~/.profile, ~/.bash_profile, ~/.bashrc) is slow or waits, such as a "
         "version manager's hook. To see what: sudo -u " +
         user_ + " -H " + shell_ +
         " -lxc true. Remove it there, or name a user without it (trainer.user of job.yaml)";
}

void ShellStart::end() {
  if (!is_awaited()) return;
  awaited_ = false;
  unlink(path_.c_str());
}

}  // namespace spotter::supervise
