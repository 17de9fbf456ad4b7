// The files through which supervisor and agent know of one another; see supervisor.hpp.
#pragma once

#include <sys/types.h>
#include <sys/un.h>

#include <string>
#include <string_view>
#include <utility>

#include "agent/base/result.hpp"

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

// Who may do what in a run directory. Everybody may look into it: `spotter status` is for any user,
// and the trainer's user finds there what is said to it. A file is its owner's alone, because
// whoever may open one may lock it (even one that is open for reading only), and it may hold what a
// trainer printed. The exceptions, none of them a lock: status.json, for `spotter status`; notice,
// pace and parameters.json, which the trainer's user reads.
inline constexpr mode_t directory_mode = 0755;
inline constexpr mode_t private_mode = 0600;
inline constexpr mode_t shown_mode = 0644;

class RunDirectory {
 public:
  // Does not touch the disk.
  explicit RunDirectory(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

  // REQUIRES: it exists. Fails unless it is a directory, no link, of ours or root's: in another's,
  // whose name could be guessed (below /tmp), each file may be replaced by a link at any time.
  // Takes away what others may do with it and with its files beyond the above: an older version let
  // them.
  Result<void> make_ours() const;

  // Written beside, fsynced, renamed, the directory fsynced: readers see all of it or nothing. Its
  // owner's alone.
  Result<void> write(std::string_view name, std::string_view content) const;
  // The same for what need not survive a power cut.
  Result<void> replace(std::string_view name, std::string_view content) const;

  // Opened with these flags of open(2), O_CREAT among them; its owner's alone. Fails for what is no
  // plain file of one name, or another user's.
  Result<Descriptor> open_file(std::string_view name, int flags) const;

  // Removes it; that it is not there is no failure.
  Result<void> remove(std::string_view name) const;

  // The agent's lock, held until the descriptor is closed; none: another holds it.
  Result<Descriptor> take_agents_lock() const;

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
