#include "agent/supervise/trainer.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <poll.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "agent/io/child.hpp"
#include "agent/supervise/processes.hpp"
#include "agent/units/settings.hpp"

namespace spotter::supervise {
namespace {

using std::chrono::steady_clock;

// The service is on the instance's own link: after this time it will not answer.
constexpr std::chrono::milliseconds patience{1000};
constexpr unsigned most_devices = 64;
constexpr std::uint16_t port = 80;

enum Answered { Nothing = 0, Bound = 1, Plain = 2, Unknown = 3 };

struct Attempt {
  Descriptor socket;
  Answered means;
};

// A socket that is connecting to the service; none: it was refused at once.
Descriptor begin(int family, const char* device) {
  Descriptor made(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made) return made;
  if (device != nullptr && ::setsockopt(made.get(), SOL_SOCKET, SO_BINDTODEVICE, device,
                                        static_cast<socklen_t>(std::strlen(device))) != 0)
    return Descriptor();
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  ::inet_pton(AF_INET, "169.254.169.254", &four.sin_addr);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  ::inet_pton(AF_INET6, "fd00:ec2::254", &six.sin6_addr);
  const bool is_four = family == AF_INET;
  const auto* address =
      is_four ? reinterpret_cast<const sockaddr*>(&four) : reinterpret_cast<const sockaddr*>(&six);
  const auto size = static_cast<socklen_t>(is_four ? sizeof four : sizeof six);
  if (::connect(made.get(), address, size) == 0 || errno == EINPROGRESS) return made;
  return Descriptor();
}

std::vector<Attempt> begin_all() {
  std::vector<Attempt> attempts;
  const auto add = [&attempts](int family, const char* device) {
    if (auto made = begin(family, device); made)
      attempts.push_back({std::move(made), device == nullptr ? Plain : Bound});
  };
  struct if_nameindex* const devices = ::if_nameindex();
  for (const int family : {AF_INET, AF_INET6}) {
    add(family, nullptr);
    for (unsigned i = 0; devices != nullptr && i < most_devices && devices[i].if_index != 0; ++i)
      add(family, devices[i].if_name);
  }
  if (devices != nullptr) ::if_freenameindex(devices);
  return attempts;
}

// The worst outcome of all attempts.
Answered look() {
  const auto attempts = begin_all();
  std::vector<pollfd> waited;
  waited.reserve(attempts.size());
  for (const Attempt& each : attempts) waited.push_back({each.socket.get(), POLLOUT, 0});
  const auto until = steady_clock::now() + patience;
  Answered worst = Nothing;
  for (std::size_t open = waited.size(); open > 0 && worst != Plain;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - steady_clock::now()).count();
    if (left <= 0 || ::poll(waited.data(), waited.size(), static_cast<int>(left)) <= 0) break;
    for (std::size_t i = 0; i < waited.size(); ++i) {
      if (waited[i].fd < 0 || waited[i].revents == 0) continue;
      int error = 0;
      socklen_t size = sizeof error;
      const bool asked = ::getsockopt(waited[i].fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0;
      if (asked && error == 0 && attempts[i].means > worst) worst = attempts[i].means;
      waited[i].fd = -1;
      --open;
    }
  }
  return worst;
}

// Tries it as the trainer's user, in a child process that takes on the user's identity.
Answered look_as(const Account& account, BoundSockets bound) {
  const pid_t child = io::fork_child([&]() -> int {
    const bool ready = bound == BoundSockets::Allowed || forbid_bound_sockets();
    return ready && take_identity(account) ? look() : Unknown;
  });
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return child > 0 && WIFEXITED(status) ? static_cast<Answered>(WEXITSTATUS(status)) : Unknown;
}

constexpr sock_filter load(std::size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<__u32>(offset));
}
constexpr sock_filter unless(std::uint32_t value, std::uint8_t skip) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip);
}
constexpr sock_filter when(std::uint32_t value, std::uint8_t skip) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, skip, 0);
}
constexpr sock_filter answer(std::uint32_t what) { return BPF_STMT(BPF_RET | BPF_K, what); }

#if defined(__x86_64__)
constexpr std::uint32_t native = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t native = AUDIT_ARCH_AARCH64;
#endif
constexpr std::uint32_t other_table = 0x40000000;  // x32's calls have this bit
constexpr std::uint32_t refused = SECCOMP_RET_ERRNO | EPERM;
constexpr std::uint32_t unknown = SECCOMP_RET_ERRNO | ENOSYS;

constexpr std::size_t argument(int index) {  // its lower half, as the kernel's type is int
  return offsetof(seccomp_data, args) + static_cast<std::size_t>(index) * sizeof(__u64);
}

// Reports from the child what failed; spawn_trainer() reads it.
[[noreturn]] void give_up(int report, const std::string& what) {
  const std::string message = what + ": " + std::strerror(errno);
  [[maybe_unused]] const ssize_t written = write(report, message.data(), message.size());
  _exit(127);
}

// A change of credentials clears the death signal, and a parent that is dead already sends none.
void end_with(pid_t supervisor) {
  if (!io::die_with(supervisor, SIGKILL)) _exit(127);
}

void take_defaults() {
  for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  io::take_usual_umask();
  leave_no_core();
  // systemd spares the supervisor; the trainer must not inherit that. Raising is always allowed.
  const int score = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
  char sign = 0;
  if (score >= 0 && pread(score, &sign, 1, 0) == 1 && sign == '-') [[maybe_unused]]
    const ssize_t written = pwrite(score, "0", 1, 0);
  if (score >= 0) close(score);
}

// A limit on all processes of this user, which usually runs the trainer only: one that forks
// without end must not make the machine unusable for the agent. This does not protect an agent that
// runs as the same user.
void bound_tasks(const Account& account) {
  rlimit tasks{};
  if (geteuid() != 0 || account.uid == 0 || getrlimit(RLIMIT_NPROC, &tasks) != 0) return;
  const rlim_t most = units::most_tasks();
  tasks = {std::min(tasks.rlim_cur, most), std::min(tasks.rlim_max, most)};
  setrlimit(RLIMIT_NPROC, &tasks);
}

[[noreturn]] void execute_trainer(const Launch& launch, const io::Program& program,
                                  BoundSockets bound, const Streams& streams, int report,
                                  pid_t supervisor) {
  end_with(supervisor);
  setsid();
  if (dup2(streams.input, 0) < 0 || dup2(streams.output, 1) < 0 || dup2(streams.errors, 2) < 0)
    give_up(report, "cannot redirect the trainer's output");
  take_defaults();
  if (bound == BoundSockets::Forbidden && !forbid_bound_sockets())
    give_up(report, "cannot keep sockets from being bound to devices");
  bound_tasks(launch.account);
  if (!take_identity(launch.account))
    give_up(report, "cannot become user '" + launch.account.name + "' with its groups");
  end_with(supervisor);
  if (chdir(launch.working_directory.c_str()) != 0)
    give_up(report, "user '" + launch.account.name + "' cannot enter the working directory " +
                        launch.working_directory);
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  for (const int view : launch.views) fcntl(view, F_SETFD, 0);
  program.execute();
  give_up(report, "cannot run " + launch.shell);
}

// While an instance exists, this process opens files with the rights of that user (setfsuid(2)); it
// has one thread. The destructor restores the rights, or ends the process.
class FilesAs : Pinned {
 public:
  explicit FilesAs(const Account& account)
      : groups_(static_cast<std::size_t>(getgroups(0, nullptr))) {
    if (getgroups(static_cast<int>(groups_.size()), groups_.data()) < 0 ||
        setgroups(account.groups.size(), account.groups.data()) != 0)
      return;
    changed_ = true;
    setfsgid(account.gid);
    setfsuid(account.uid);
    constexpr auto none = static_cast<uid_t>(-1);  // changes nothing, returns the current id
    holds_ = static_cast<uid_t>(setfsuid(none)) == account.uid &&
             static_cast<gid_t>(setfsgid(none)) == account.gid;
  }
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

bool forbid_bound_sockets() {
  // Forbids all calls of the machine's other tables, which have other numbers.
  static sock_filter program[] = {load(offsetof(seccomp_data, arch)),
                                  when(native, 1),
                                  answer(unknown),
                                  load(offsetof(seccomp_data, nr)),
                                  BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, other_table, 0, 1),
                                  answer(unknown),
                                  unless(SYS_io_uring_setup, 1),
                                  answer(unknown),
                                  unless(SYS_setsockopt, 6),
                                  load(argument(1)),
                                  unless(SOL_SOCKET, 4),
                                  load(argument(2)),
                                  when(SO_BINDTODEVICE, 1),
                                  unless(SO_BINDTOIFINDEX, 1),
                                  answer(refused),
                                  answer(SECCOMP_RET_ALLOW)};
  const sock_fprog filter{.len = std::size(program), .filter = program};
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0) return true;
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

Result<BoundSockets> keep_from_metadata(const Account& account) {
  Answered seen = look_as(account, BoundSockets::Allowed);
  if (seen == Nothing) return BoundSockets::Allowed;
  if (seen == Bound) seen = look_as(account, BoundSockets::Forbidden);
  if (seen == Nothing) return BoundSockets::Forbidden;
  return failure(
      (seen == Unknown ? "whether the instance metadata service refuses user '" + account.name +
                             "' could not be found out"
                       : "the instance metadata service answers user '" + account.name +
                             "', and with it the instance's own role") +
      ": mend that (iproute2 is needed, see `journalctl -u spotter`), or say `trainer.imds: allow` "
      "in job.yaml");
}

void leave_no_core() {
  rlimit core{};
  if (getrlimit(RLIMIT_CORE, &core) != 0) return;
  core.rlim_cur = 0;
  setrlimit(RLIMIT_CORE, &core);
}

std::string read_as(const Account& account, const std::string& path) {
  constexpr std::size_t most = 1U << 20;
  std::optional<FilesAs> as_user;
  if (geteuid() == 0 && account.uid != 0) as_user.emplace(account);
  if (as_user && !as_user->holds()) return {};
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  const bool plain = file && fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode);
  return plain ? io::read_to_end(file.get(), most).value_or("") : "";
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

Result<pid_t> spawn_as_trainer(const Launch& launch, const Streams& streams, BoundSockets bound,
                               const std::string& control_group) {
  Descriptor report_in, report_out;
  if (!io::make_pipe(report_in, report_out))
    return failure("pipe: " + std::string(std::strerror(errno)));
  const pid_t supervisor = getpid();
  const io::Program program(launch.arguments, launch.environment, launch.shell);
  const pid_t trainer = io::fork_child([&]() -> int {
    if (!control_group.empty()) (void)enter_control_group(control_group);  // on failure without one
    execute_trainer(launch, program, bound, streams, report_out.get(), supervisor);
  });
  if (trainer < 0) return failure("fork: " + std::string(std::strerror(errno)));
  report_out.close();
  // Exec closes the pipe.
  const auto message =
      io::read_to_end(report_in.get(), 64U << 10).value_or("its report cannot be read");
  if (message.empty()) return trainer;
  waitpid(trainer, nullptr, 0);
  return failure(message);
}

Result<pid_t> spawn_trainer(const Launch& launch, const Descriptor& log,
                            const std::string& control_group) {
  BoundSockets bound = BoundSockets::Allowed;
  if (launch.refuse_metadata) {
    bound = TRY(keep_from_metadata(launch.account));
  }
  const Descriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null) return failure("cannot open /dev/null: " + std::string(std::strerror(errno)));
  return spawn_as_trainer(launch, {null.get(), log.get(), log.get()}, bound, control_group);
}

}  // namespace spotter::supervise
