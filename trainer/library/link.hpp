// The trainer's side of its link with the agent: datagrams in systemd's notification format
// (https://www.freedesktop.org/software/systemd/man/sd_notify.html) to $NOTIFY_SOCKET, the notice
// in the file $SPOTTER_NOTICE_FILE, and the stop signal. Without Spotter around it all of it does
// nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "trainer/library/files.hpp"

namespace spotter::checkpoint {

// Zeros (of numbers that count) and NaN stand for "not known", and are not sent.
struct Progress {
  std::uint64_t step = 0;
  std::uint64_t steps_total = 0;
  std::uint64_t epoch = 0;  // from 1
  std::uint64_t epochs_total = 0;
  double loss = std::numeric_limits<double>::quiet_NaN();
  double accuracy = std::numeric_limits<double>::quiet_NaN();  // 0..1
};

// The machine will be taken away.
struct Notice {
  std::string action;                                 // terminate, stop, hibernate
  std::optional<std::chrono::milliseconds> deadline;  // CLOCK_BOOTTIME, see boot_now()
  // When the agent kills the trainer, so that the storage can be let go of before the deadline.
  // None: there is nothing to win by going on; checkpoint and leave.
  std::optional<std::chrono::milliseconds> gone_by;
};

// What the agent, who knows price and danger, has to say in $SPOTTER_PACE_FILE.
struct Advice {
  std::optional<std::chrono::nanoseconds> every;    // between two checkpoints
  std::optional<std::chrono::milliseconds> wanted;  // one of a moment after this (CLOCK_BOOTTIME)
};

// CLOCK_BOOTTIME: also runs while the machine is suspended.
std::chrono::milliseconds boot_now();

// None when it is not a time: negative, not a number, beyond thirty years.
std::optional<std::chrono::nanoseconds> interval(double seconds);

class Link {
 public:
  // From NOTIFY_SOCKET (a path, or `@name` in the abstract namespace), SPOTTER_NOTICE_FILE and
  // SPOTTER_PACE_FILE.
  static Link from_environment();
  // Empty: none.
  Link(std::string_view socket, std::filesystem::path notice_file,
       std::filesystem::path pace_file = {});

  // None of these blocks or fails: training goes on when nobody listens.
  void ready();
  void status(std::string_view text);
  void resumed(std::uint64_t step);    // once, before the first step; 0: from scratch
  void progress(const Progress& now);  // sends at most 10 a second, and the last step always
  // Would progress() of this step be sent now? What it costs to know the loss is spared where not.
  bool progress_due(std::uint64_t step, std::uint64_t steps_total) const;
  // Only for what is durable already. `stall`: how long the training stood still for it.
  void checkpointed(const std::filesystem::path& path, std::uint64_t step,
                    std::optional<std::chrono::nanoseconds> stall = std::nullopt);
  // How much of the time between notice and last checkpoint was trained in.
  void window_trained(std::chrono::nanoseconds trained);
  void finished();

  // None when there is no notice or it cannot be understood.
  std::optional<Notice> notice() const;

  // Nothing where the agent says nothing.
  Advice advice() const;

 private:
  void send(std::string_view datagram);

  std::string address_;  // as in NOTIFY_SOCKET
  std::filesystem::path notice_file_;
  std::filesystem::path pace_file_;
  Descriptor socket_;
  std::optional<std::chrono::milliseconds> last_progress_;
};

// From now on SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 only set a flag, and SIGPIPE is ignored
// (a reader of our output that died is no reason to stop). SIGHUP stays ignored where it was
// (nohup).
void catch_stop_signals();
// The same for one signal, where nobody else has a handler for it. False: somebody has, or it is
// ignored.
bool catch_stop_signal(int number);

// The signal that asked this process to stop, if any did. Async-signal-safe, cheap enough for each
// step.
std::optional<int> stop_requested();

}  // namespace spotter::checkpoint
