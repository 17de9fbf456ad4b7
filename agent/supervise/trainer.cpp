#include "agent/supervise/trainer.hpp"

#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "agent/supervise/control_group.hpp"
#include "agent/supervise/metadata.hpp"
#include "agent/systemd/settings.hpp"

namespace spotter::supervise {
namespace {

// The child's way to say what failed: read by spawn_trainer.
[[noreturn]] void give_up(int report, const std::string& what) {
  const std::string message = what + ": " + std::strerror(errno);
  [[maybe_unused]] const ssize_t written = write(report, message.data(), message.size());
  _exit(127);
}

// The death signal is cleared when credentials change, and a parent that has died already sends
// none.
void die_with(pid_t supervisor) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) _exit(127);
}

void take_defaults() {
  for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  umask(022);
  rlimit core{};
  if (getrlimit(RLIMIT_CORE, &core) == 0) {
    core.rlim_cur = 0;
    setrlimit(RLIMIT_CORE, &core);
  }
  // Of its supervisor, which systemd spares, it does not inherit that. Raising is always allowed.
  const int score = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
  char sign = 0;
  if (score >= 0 && pread(score, &sign, 1, 0) == 1 && sign == '-') [[maybe_unused]]
    const ssize_t written = pwrite(score, "0", 1, 0);
  if (score >= 0) close(score);
}

// Of all that is this user's, which the trainer shares with nobody as a rule: what forks without
// end must not take the machine from the agent. Where user and agent are the same it is no
// boundary.
void bound_tasks(const Account& account) {
  rlimit tasks{};
  if (geteuid() != 0 || account.uid == 0 || getrlimit(RLIMIT_NPROC, &tasks) != 0) return;
  const rlim_t most = units::most_tasks();
  tasks = {std::min(tasks.rlim_cur, most), std::min(tasks.rlim_max, most)};
  setrlimit(RLIMIT_NPROC, &tasks);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

[[noreturn]] void become_trainer(const Launch& launch, BoundSockets bound, int log, int report,
                                 pid_t supervisor) {
  die_with(supervisor);
  setsid();
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
    give_up(report, "cannot redirect the trainer's output");
  take_defaults();
  if (bound == BoundSockets::Forbidden && !forbid_bound_sockets())
    give_up(report, "cannot keep sockets from being bound to devices");
  bound_tasks(launch.account);
  if (!take_identity(launch.account))
    give_up(report, "cannot become user '" + launch.account.name + "' with its groups");
  die_with(supervisor);
  if (chdir(launch.working_directory.c_str()) != 0)
    give_up(report, "user '" + launch.account.name + "' cannot enter the working directory " +
                        launch.working_directory);
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  execve(launch.shell.c_str(), pointers(launch.arguments).data(),
         pointers(launch.environment).data());
  give_up(report, "cannot run the login shell " + launch.shell);
}

// For its lifetime, and for nothing but files, this process has the rights of that user alone
// (setfsuid(2)); it has one thread. Restores them, or ends: going on without would be worse.
class FilesAs {
 public:
  explicit FilesAs(const Account& account)
      : groups_(static_cast<std::size_t>(getgroups(0, nullptr))) {
    if (getgroups(static_cast<int>(groups_.size()), groups_.data()) < 0 ||
        setgroups(account.groups.size(), account.groups.data()) != 0)
      return;
    changed_ = true;
    setfsgid(account.gid);
    setfsuid(account.uid);
    constexpr auto none = static_cast<uid_t>(-1);  // changes nothing, answers what is
    holds_ = static_cast<uid_t>(setfsuid(none)) == account.uid &&
             static_cast<gid_t>(setfsgid(none)) == account.gid;
  }
  FilesAs(const FilesAs&) = delete;
  FilesAs& operator=(const FilesAs&) = delete;
  ~FilesAs() {
    if (!changed_) return;
    setfsuid(geteuid());
    setfsgid(getegid());
    if (setgroups(groups_.size(), groups_.data()) != 0) std::abort();
  }

  bool holds() const { return holds_; }

 private:
  std::vector<gid_t> groups_;
  bool changed_ = false;
  bool holds_ = false;
};

}  // namespace

std::string read_to_end(int file) {
  std::string text;
  std::array<char, 512> buffer{};
  while (true) {
    const ssize_t got = read(file, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

Result<Descriptor> open_log(const std::string& path, const Account& owner, LogPlace place) {
  constexpr int flags =
      O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  const auto wrong = [&](const std::string& why) {
    return failure("cannot open the log file " + path + ": " + why);
  };
  const bool ours = place == LogPlace::RunDirectory;
  std::optional<FilesAs> as_owner;
  if (!ours && geteuid() == 0 && owner.uid != 0) as_owner.emplace(owner);
  if (as_owner && !as_owner->holds()) return wrong("cannot take the rights of " + owner.name);
  Descriptor log(open(path.c_str(), flags, ours ? private_mode : shown_mode));
  if (!log) return wrong(std::strerror(errno));
  struct stat status {};
  if (fstat(log.get(), &status) != 0) return wrong(std::strerror(errno));
  if (!S_ISREG(status.st_mode) || status.st_nlink != 1) return wrong("not a plain file of its own");
  if (ours && geteuid() == 0 && fchown(log.get(), owner.uid, owner.gid) != 0)
    return wrong(std::strerror(errno));
  return log;
}

bool take_identity(const Account& account) {
  if (geteuid() != 0) return true;
  return setgroups(account.groups.size(), account.groups.data()) == 0 &&
         setresgid(account.gid, account.gid, account.gid) == 0 &&
         setresuid(account.uid, account.uid, account.uid) == 0;
}

Result<pid_t> spawn_trainer(const Launch& launch, const Descriptor& log,
                            const std::string& control_group) {
  BoundSockets bound = BoundSockets::Allowed;
  if (launch.refuse_metadata) {
    const auto kept = keep_from_metadata(launch.account);
    if (!kept) return tl::unexpected(kept.error());
    bound = *kept;
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return failure("pipe: " + std::string(std::strerror(errno)));
  const Descriptor report_in(ends[0]);
  Descriptor report_out(ends[1]);
  const pid_t supervisor = getpid();
  const pid_t trainer = fork();
  if (trainer < 0) return failure("fork: " + std::string(std::strerror(errno)));
  if (trainer == 0) {
    if (!control_group.empty()) (void)enter_control_group(control_group);  // else without it
    become_trainer(launch, bound, log.get(), report_out.get(), supervisor);
  }
  report_out.reset();
  const std::string message = read_to_end(report_in.get());  // its end comes with exec
  if (message.empty()) return trainer;
  waitpid(trainer, nullptr, 0);
  return failure(message);
}

}  // namespace spotter::supervise
