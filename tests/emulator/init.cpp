#include "tests/emulator/init.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "tests/emulator/containers.hpp"
#include "tests/emulator/isolation.hpp"
#include "tests/emulator/namespaces.hpp"
#include "tests/emulator/process_tree.hpp"

namespace spotter::emulator {
namespace {

void send_ready(int socket, const std::array<int, 2>* listeners) {
  char byte = 'R';
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 2)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (listeners != nullptr) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * 2);
    std::memcpy(CMSG_DATA(header), listeners->data(), sizeof(int) * 2);
  }
  ::sendmsg(socket, &message, MSG_NOSIGNAL);
}

Result<void> prepare_namespaces() {
  if (auto isolated = isolate_mounts(); !isolated) return isolated;
  if (auto up = bring_up_loopback(); !up) return up;
  const auto metadata = listen_on("169.254.169.254", 80);
  if (!metadata) return tl::unexpected(metadata.error());
  const auto api = listen_on("0.0.0.0", 4566);
  if (!api) return tl::unexpected(api.error());
  const std::array<int, 2> listeners{*metadata, *api};
  send_ready(init_socket, &listeners);
  ::close(*metadata);
  ::close(*api);
  return {};
}

bool has_interpreter_line(const char* path) {
  char start[2] = {};
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  const bool found = file >= 0 && ::read(file, start, 2) == 2 && start[0] == '#' && start[1] == '!';
  if (file >= 0) ::close(file);
  return found;
}

pid_t run_program(const char* path) {
  const bool script = has_interpreter_line(path);
  const pid_t child = ::fork();
  if (child != 0) return child;
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  ::setsid();
  if (script) ::execl(path, path, nullptr);
  if (!script) ::execl("/bin/sh", "sh", path, nullptr);
  std::fprintf(stderr, "spotter-emulator: user data: %s\n", std::strerror(errno));
  ::_exit(127);
}

// Answers whether the program has ended.
bool reap(pid_t program, Containers& containers) {
  int status = 0;
  bool ended = false;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    if (containers.ended(pid, status) || pid != program) continue;
    ended = true;
    const bool signalled = WIFSIGNALED(status);
    std::fprintf(stderr, "spotter-emulator: user data ended with %s %d\n",
                 signalled ? "signal" : "status",
                 signalled ? WTERMSIG(status) : WEXITSTATUS(status));
  }
  return ended;
}

// Until the emulator is gone, or the program when all ends with it.
void attend(pid_t program, int signals, bool ends_with_program) {
  Containers containers(init_socket);
  pollfd watched[] = {{init_socket, POLLIN, 0}, {signals, POLLIN, 0}};
  for (;;) {
    if (::poll(watched, 2, -1) < 0 && errno != EINTR) return;
    if (watched[0].revents != 0 && !containers.hear()) return;
    signalfd_siginfo ignored{};
    if (watched[1].revents != 0 && ::read(signals, &ignored, sizeof ignored) > 0)
      if (reap(program, containers) && ends_with_program) return;
  }
}

void die_with_the_emulator(bool first_of_its_pids) {
  ::fcntl(init_socket, F_SETFD, FD_CLOEXEC);
  // In user mode it is this process that kills the rest, once it reads the end of the socket.
  if (first_of_its_pids) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!first_of_its_pids) ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

int block_child_signal() {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, nullptr);
  return ::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
}

}  // namespace

int instance_init(int argc, char** argv) {
  if (argc < 4) return 2;
  const bool isolated = std::string_view(argv[2]) == "isolated";
  const bool namespaces = !isolated && std::string_view(argv[2]) != "user";
  const bool whole = std::string_view(argv[2]) == "whole";
  const char* const program = argv[3];
  die_with_the_emulator(namespaces || isolated);
  const int signals = block_child_signal();
  const auto prepared = namespaces ? prepare_namespaces()
                        : isolated ? isolate({argv + 4, argv + argc})
                                   : Result<void>{};
  if (!prepared) {
    const std::string text = "E" + prepared.error().message;
    ::send(init_socket, text.data(), text.size(), MSG_NOSIGNAL);
    return 1;
  }
  if (!namespaces) send_ready(init_socket, nullptr);
  char go = 0;
  if (::read(init_socket, &go, 1) != 1) return 0;
  attend(::access(program, F_OK) == 0 ? run_program(program) : 0, signals, whole);
  if (!namespaces && !isolated) kill_tree(::getpid());
  return 0;
}

}  // namespace spotter::emulator
