// The files through which supervisor and agent know of one another; see supervisor.hpp.
#pragma once

#include <sys/un.h>

#include <string>
#include <string_view>
#include <utility>

#include "agent/wire/result.hpp"

namespace spotter::supervise {

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { reset(); }
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }
  void reset();
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_;
};

class RunDirectory {
 public:
  // Does not touch the disk.
  explicit RunDirectory(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

  // Written beside, fsynced, renamed, the directory fsynced: readers see all of it or nothing.
  Result<void> write(std::string_view name, std::string_view content) const;

  // Removes it; that it is not there is no failure.
  Result<void> remove(std::string_view name) const;

  // The lock of a supervisor's life. Open file description locks: a test does not disturb the
  // holder, and the kernel lets go of it however the holder ends.
  Result<Descriptor> open_lock() const;

 private:
  std::string path_;
};

bool try_lock(const Descriptor& lock);   // true: we hold it now
bool is_locked(const Descriptor& lock);  // by somebody else

// The socket's address goes through /proc/self/fd, because a socket's path must have at most 107
// bytes and a run directory may lie deep. `directory` must stay open while the address is used.
sockaddr_un socket_address(const Descriptor& directory, std::string_view name);

std::int64_t boottime_milliseconds();

}  // namespace spotter::supervise
