#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "agent/io/files.hpp"
#include "tests/emulator/frames.hpp"
#include "tests/emulator/init.hpp"

namespace spotter::emulator {
namespace {

constexpr int ready_limit_ms = 10'000;  // a loaded machine under a sanitizer needs about one second

struct Launch {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  const char* folder;
  int console;
  const char* users;   // the line of uid_map; null: it stays in its user namespace
  const char* groups;  // of gid_map
};

bool put(const char* path, const char* text) {
  const int file = ::open(path, O_WRONLY | O_CLOEXEC);
  const auto size = static_cast<ssize_t>(std::strlen(text));
  const bool done = file >= 0 && ::write(file, text, std::strlen(text)) == size;
  if (file >= 0) ::close(file);
  return done;
}

// In a new user namespace: stays who it is, and takes the right to mount there through its exec.
// The keys of its session, which whoever inherits them may read, are left behind.
bool keep_identity(const Launch& launch) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct rights[2] = {};
  if (!put("/proc/self/setgroups", "deny") || !put("/proc/self/uid_map", launch.users) ||
      !put("/proc/self/gid_map", launch.groups) || ::syscall(SYS_capget, &header, rights) != 0)
    return false;
  for (auto& part : rights) part.inheritable = part.permitted;
  constexpr int join_session_keyring = 1;  // keyctl(2); a kernel without keys has none to read
  ::syscall(SYS_keyctl, join_session_keyring, nullptr);
  return ::syscall(SYS_capset, &header, rights) == 0 &&
         ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0) == 0;
}

// Between clone and exec: system calls only.
[[noreturn]] void become_init(const Launch& launch, int socket) {
  ::setsid();
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing < 0 || ::chdir(launch.folder) != 0) ::_exit(126);
  // The socket first, to a number above 3: it may be any of those that are overwritten here.
  const int kept = ::fcntl(socket, F_DUPFD_CLOEXEC, 10);
  const int output = ::fcntl(launch.console, F_DUPFD_CLOEXEC, 10);
  const int input = ::fcntl(nothing, F_DUPFD_CLOEXEC, 10);
  ::dup2(input, 0);
  ::dup2(output, 1);
  ::dup2(output, 2);
  ::dup2(kept, init_socket);
  ::syscall(SYS_close_range, init_socket + 1, ~0U, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  if (launch.users != nullptr && !keep_identity(launch)) ::_exit(126);
  ::execve("/proc/self/exe", launch.arguments.data(), launch.environment.data());
  ::_exit(127);
}

void take_descriptors(msghdr& message, InitProcess& process) {
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return;
  if (header->cmsg_len == CMSG_LEN(sizeof(int) * 2))
    std::memcpy(process.listeners.data(), CMSG_DATA(header), sizeof(int) * 2);
}

Result<void> await_ready(InitProcess& process) {
  pollfd readable{process.socket, POLLIN, 0};
  const int ready = ::poll(&readable, 1, ready_limit_ms);
  if (ready <= 0) return failure("the instance's init did not answer within ten seconds");
  char text[256] = {};
  iovec part{text, sizeof text - 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 2)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const auto size = ::recvmsg(process.socket, &message, MSG_CMSG_CLOEXEC);
  if (size <= 0) return failure("the instance's init ended at once; see its console.log");
  if (text[0] != 'R') return failure(std::string("the instance's init: ") + (text + 1));
  take_descriptors(message, process);
  return {};
}

}  // namespace

Result<InitProcess> start_init(const InitOptions& options) {
  // Opened here: a mount with a file that is written to cannot become read-only.
  const io::Descriptor console(::open(
      options.console.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!console) return failure(options.console + ": " + std::strerror(errno));
  int sockets[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return failure(std::string("socketpair: ") + std::strerror(errno));
  const bool isolated = !options.isolation.empty();
  std::vector<std::string> arguments = {"spotter-instance", "instance-init",
                                        options.ends_with_program ? "whole"
                                        : options.namespaces      ? "root"
                                        : isolated                ? "isolated"
                                                                  : "user",
                                        options.program};
  arguments.insert(arguments.end(), options.isolation.begin(), options.isolation.end());
  const auto itself = [](auto id) { return std::to_string(id) + " " + std::to_string(id) + " 1"; };
  const std::string users = itself(::geteuid()), groups = itself(::getegid());
  const Launch launch{
      pointers(arguments), pointers(options.environment),      options.folder.c_str(),
      console.get(),       isolated ? users.c_str() : nullptr, groups.c_str()};
  const unsigned long flags =
      SIGCHLD | (options.namespaces ? CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET
                 : isolated         ? CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC
                                    : 0);
  // Like fork, but into new namespaces at once; the child only ever calls the kernel until its
  // exec.
  const auto pid =
      static_cast<pid_t>(::syscall(SYS_clone, flags, nullptr, nullptr, nullptr, nullptr));
  if (pid == 0) become_init(launch, sockets[1]);
  const int problem = errno;
  ::close(sockets[1]);
  InitProcess process{pid, sockets[0], {-1, -1}};
  auto ready = pid < 0 ? Result<void>(failure(std::string("clone: ") + std::strerror(problem)))
                       : await_ready(process);
  if (ready) return process;
  ::close(process.socket);
  if (pid > 0) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  return tl::unexpected(ready.error());
}

}  // namespace spotter::emulator
