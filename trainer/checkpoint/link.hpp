// The trainer's side of its link with the agent: datagrams in systemd's notification format
// (https://www.freedesktop.org/software/systemd/man/sd_notify.html) to $NOTIFY_SOCKET, the notice
// in the file $SPOTTER_NOTICE_FILE, and the stop signal. Without Spotter around it all of it does
// nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "trainer/checkpoint/files.hpp"

namespace spotter::checkpoint {

struct Progress {
  std::uint64_t step = 0;
  std::uint64_t steps_total = 0;
  std::uint64_t epoch = 0;  // from 1
  std::uint64_t epochs_total = 0;
  double loss = 0;
  double accuracy = 0;  // 0..1
};

// The machine will be taken away.
struct Notice {
  std::string action;                                 // terminate, stop, hibernate
  std::optional<std::chrono::milliseconds> deadline;  // CLOCK_BOOTTIME, see boot_now()
};

// CLOCK_BOOTTIME: also runs while the machine is suspended.
std::chrono::milliseconds boot_now();

class Link {
 public:
  // From NOTIFY_SOCKET (a path, or `@name` in the abstract namespace) and SPOTTER_NOTICE_FILE.
  static Link from_environment();
  // Empty: none.
  Link(std::string_view socket, std::filesystem::path notice_file);

  // None of these blocks or fails: training goes on when nobody listens.
  void ready();
  void status(std::string_view text);
  void resumed(std::uint64_t step);    // once, before the first step; 0: from scratch
  void progress(const Progress& now);  // sends at most 10 a second, and the last step always
  // Only for what is durable already.
  void checkpointed(const std::filesystem::path& path, std::uint64_t step);
  void finished();

  // None when there is no notice or it cannot be understood. A notice may be withdrawn again.
  std::optional<Notice> notice() const;

 private:
  void send(std::string_view datagram);

  std::string address_;  // as in NOTIFY_SOCKET
  std::filesystem::path notice_file_;
  Descriptor socket_;
  std::optional<std::chrono::milliseconds> last_progress_;
};

// From now on SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 only set a flag, and SIGPIPE is ignored
// (a reader of our output that died is no reason to stop). SIGHUP stays ignored where it was
// (nohup).
void catch_stop_signals();

// The signal that asked this process to stop, if any did. Async-signal-safe, cheap enough for each
// step.
std::optional<int> stop_requested();

}  // namespace spotter::checkpoint
