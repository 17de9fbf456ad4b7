// The trainer's communication with the agent: datagrams in systemd's notification format
// (https://www.freedesktop.org/software/systemd/man/sd_notify.html) to $NOTIFY_SOCKET, the notice
// in the file $SPOTTER_NOTICE_FILE, and the stop signal. Without Spotter it does nothing.
#pragma once

#include <chrono>
#include <limits>
#include <optional>

#include "agent/base/metrics.hpp"
#include "trainer/library/files.hpp"

namespace spotter::checkpoint {

// Zeros (of counts) and NaN mean "unknown", and are not sent. Nor is a metric whose name is none
// (is_metric_name()), or beyond `most_metrics`.
struct Progress {
  std::uint64_t step = 0;
  std::uint64_t steps_total = 0;
  std::uint64_t epoch = 0;  // from 1
  std::uint64_t epochs_total = 0;
  double loss = std::numeric_limits<double>::quiet_NaN();
  double accuracy = std::numeric_limits<double>::quiet_NaN();  // 0..1
  MetricValues metrics = {};                                   // others, by name: "val_loss"
};

// The machine will be taken away.
struct Notice {
  std::string action;                                 // terminate, stop, hibernate
  std::optional<std::chrono::milliseconds> deadline;  // CLOCK_BOOTTIME, see boot_now()
  // When the agent kills the trainer, so that the storage can be released before the deadline.
  // None: training on gains nothing; checkpoint and leave.
  std::optional<std::chrono::milliseconds> gone_by;
};

// The agent's advice in $SPOTTER_PACE_FILE, which depends on price and risk.
struct Advice {
  std::optional<std::chrono::nanoseconds> every;    // one made after this time (CLOCK_BOOTTIME)
  std::optional<std::chrono::milliseconds> wanted;  // one of a moment after this (CLOCK_BOOTTIME)
};

// CLOCK_BOOTTIME, which also advances while the machine is suspended.
std::chrono::nanoseconds boot_now();

// None: it is no duration (negative, not a number, beyond thirty years).
std::optional<std::chrono::nanoseconds> interval(double seconds);

class Link {
 public:
  // Reads NOTIFY_SOCKET (a path, or `@name` in the abstract namespace), SPOTTER_NOTICE_FILE and
  // SPOTTER_PACE_FILE.
  static Link from_environment();
  // Empty values mean that there is none.
  Link(std::string_view socket, fs::path notice_file, fs::path pace_file = {});

  // None of these blocks or fails: training does not depend on the agent.
  void ready() { send("READY=1\n"); }
  void status(std::string_view text);
  void resumed(std::uint64_t step);  // once, before the first step; 0: from scratch
  // Sends at most 10 a second, and the last step always. A report with metrics too soon after the
  // last one waits for the next, or for the end: an evaluation's are not made again.
  void progress(const Progress& now);
  void send_waiting();  // to be called at the end
  // True: progress() of this step would be sent now. Otherwise the loss need not be computed.
  bool progress_due(std::uint64_t step, std::uint64_t steps_total) const;
  // To be called only once it is durable. `stall`: how long training paused for it.
  void checkpointed(const fs::path& path, std::uint64_t step,
                    std::optional<std::chrono::nanoseconds> stall = std::nullopt,
                    std::optional<std::uint64_t> bytes = std::nullopt);
  // Reports how much of the time between notice and last checkpoint was used for training.
  void window_trained(std::chrono::nanoseconds trained);
  // Waits up to two seconds for room in the queue.
  void finished();

  // None: there is no notice, or it cannot be parsed.
  std::optional<Notice> notice() const;

  // Empty where the agent gives no advice.
  Advice advice() const;

 private:
  // False: nobody took it.
  bool send(std::string_view datagram);
  bool send(const Progress& now);
  void send_waiting_now();

  std::string address_;  // as in NOTIFY_SOCKET
  fs::path notice_file_;
  fs::path pace_file_;
  Descriptor socket_;
  std::optional<std::chrono::nanoseconds> last_progress_, last_metrics_;
  Progress waiting_;  // with metrics that were not sent yet
};

// From now on SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 only set a flag, and SIGPIPE is ignored
// (a closed output is no reason to stop). SIGHUP stays ignored if it was (nohup).
void catch_stop_signals();
// The same for one signal without a handler. False: it has a handler, or is ignored.
bool catch_stop_signal(int number);

// The signal that asked this process to stop; none: no signal did. Async-signal-safe, and cheap
// enough to call at each step.
std::optional<int> stop_requested();

}  // namespace spotter::checkpoint
