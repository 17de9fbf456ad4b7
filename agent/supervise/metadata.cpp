#include "agent/supervise/metadata.hpp"

#include <arpa/inet.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "agent/io/child.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/supervise/trainer.hpp"

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

}  // namespace spotter::supervise
