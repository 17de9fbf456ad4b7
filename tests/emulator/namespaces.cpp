#include "tests/emulator/namespaces.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace spotter::emulator {
namespace {

auto failed(const std::string& what) { return failure(what + ": " + std::strerror(errno)); }

sockaddr_in address_of(const char* text, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  ::inet_pton(AF_INET, text, &address.sin_addr);
  return address;
}

ifreq request_for(const char* interface, const char* address) {
  ifreq request{};
  std::strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
  const sockaddr_in value = address_of(address, 0);
  std::memcpy(&request.ifr_addr, &value, sizeof value);
  return request;
}

}  // namespace

bool can_make_namespaces() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID) == 0 ? 0 : 1);
  int status = 1;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

Result<void> isolate_mounts() {
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return failed("make mounts private");
  if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
    return failed("mount /proc");
  return {};
}

Result<void> bring_up_loopback() {
  const int descriptor = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return failed("socket");
  ifreq up{};
  std::strncpy(up.ifr_name, "lo", IFNAMSIZ - 1);
  up.ifr_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK;
  ifreq metadata = request_for("lo:1", "169.254.169.254");
  ifreq mask = request_for("lo:1", "255.255.255.255");
  Result<void> result{};
  if (::ioctl(descriptor, SIOCSIFFLAGS, &up) != 0) {
    result = failed("bring lo up");
  } else if (::ioctl(descriptor, SIOCSIFADDR, &metadata) != 0 ||
             ::ioctl(descriptor, SIOCSIFNETMASK, &mask) != 0) {
    result = failed("add 169.254.169.254 to lo");
  }
  ::close(descriptor);
  return result;
}

Result<int> listen_on(const char* address, std::uint16_t port) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return failed("socket");
  const sockaddr_in where = address_of(address, port);
  if (::bind(descriptor, reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0 ||
      ::listen(descriptor, SOMAXCONN) != 0) {
    const auto why = failed(std::string("listen on ") + address);
    ::close(descriptor);
    return why;
  }
  return descriptor;
}

Result<void> cut_power(const char* mount_point) {
  static constexpr unsigned long shutdown_request = _IOR('X', 125, std::uint32_t);
  static constexpr std::uint32_t without_log_flush = 2;
  const int descriptor = ::open(mount_point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return failed(mount_point);
  std::uint32_t how = without_log_flush;
  Result<void> result{};
  if (::ioctl(descriptor, shutdown_request, &how) != 0) result = failed(mount_point);
  ::close(descriptor);
  return result;
}

}  // namespace spotter::emulator
