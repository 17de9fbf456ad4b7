// The run directory.
#pragma once

#include <sys/un.h>

#include <deque>

#include "agent/aws/settings/settings.hpp"
#include "agent/base/version.hpp"
#include "agent/io/files.hpp"

namespace spotter::supervise {

// The files by which supervisor and agent communicate; see supervisor.hpp.

using io::Descriptor;

// Permissions in a run directory. All may list it: any user runs `spotter status`, and the
// trainer's user reads the agent's messages there. Only its owner may open a file: whoever can open
// one can lock it (even if open for reading only), and it may hold what a trainer printed.
// Exceptions, none of them a lock: status.json, for `spotter status`; notice, pace, values and
// parameters.json, which the trainer's user reads.
inline constexpr mode_t directory_mode = 0755;
inline constexpr mode_t private_mode = 0600;
inline constexpr mode_t shown_mode = 0644;
// The agent makes this file once the trainer has reported a checkpoint by itself: the guard, where
// no patterns are named, leaves them to it.
inline constexpr const char* reports_name = "reports";
// The agent makes this file when it asks the trainer to end: the trainer's user reads in it why.
inline constexpr const char* notice_name = "notice";
// The supervisor makes this file when it gets a signal that ends services: its content says whose.
inline constexpr const char* stopper_name = "stopped-by";

class RunDirectory {
 public:
  // Does not touch the disk.
  explicit RunDirectory(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

  // REQUIRES: it exists. Fails unless it is a directory, no link, owned by us or root: in another
  // user's, whose name could be guessed (below /tmp), any file may become a link at any time.
  // Removes permissions beyond the above from it and its files, which an older version granted.
  Result<void> make_ours() const;

  // Writes a new file, fsyncs and renames it, fsyncs the directory: readers see all of it or
  // nothing. Only its owner may open it.
  Result<void> write(std::string_view name, std::string_view content) const;
  // The same without fsync, for what need not survive a power failure.
  Result<void> replace(std::string_view name, std::string_view content) const;

  // Opens it with `flags` of open(2) and no link followed; with O_CREAT only its owner may open it.
  // Fails for what is no regular file with one name, or is another user's.
  Result<Descriptor> open_file(std::string_view name, int flags) const;

  // Removes it; succeeds if it does not exist.
  Result<void> remove(std::string_view name) const;

  // Takes the agent's lock until the descriptor is closed. An empty descriptor: another holds it.
  Result<Descriptor> take_agents_lock() const;

  // The lock that a supervisor holds while it runs. It is an open file description lock: it can be
  // tested without taking it, and the kernel releases it however the holder ends.
  Result<Descriptor> open_lock() const;

 private:
  std::string path_;
};

bool try_lock(const Descriptor& lock);   // true: this process now holds it
bool is_locked(const Descriptor& lock);  // another process holds it

// An address through /proc/self/fd, because a socket's path has at most 107 bytes and a run
// directory's may be longer. `directory` must stay open while the address is used.
sockaddr_un socket_address(const Descriptor& directory, std::string_view name);

// To the agent, whose socket is at that path. It may be busy: then we wait for it so long. False:
// it did not take it.
bool send_datagram(const std::string& path, const std::string& text,
                   std::chrono::milliseconds patience);

std::int64_t boottime_milliseconds();
std::string boot_id();  // of the kernel; empty: it does not say

// The trainer's reports of the metric by which its best checkpoint is kept: `values` in the run
// directory, which the agent writes and the guard reads.

struct ReportedValue {
  double time = 0;  // seconds since 1970, when the agent got it
  std::uint64_t step = 0;
  double value = 0;  // finite
  friend bool operator==(const ReportedValue&, const ReportedValue&) = default;
};

// In the order in which they came. Only the newest stays of those that came within half a second of
// each other: a loss may be reported thousands of times a second, and a folder may be recorded five
// minutes after its last change.
class ReportedValues {
 public:
  static constexpr double spacing = 0.5;
  static constexpr std::size_t most = 1024;

  void add(const ReportedValue& value);
  const std::deque<ReportedValue>& all() const { return all_; }

 private:
  std::deque<ReportedValue> all_;
};

inline constexpr const char* values_name = "values";

std::string to_json(const ReportedValues& values);
// Fails for anything that to_json() cannot have written.
Result<ReportedValues> parse_values(std::string_view text);

// The time for which a trainer may run, where several machines could run it: the experiment's
// holder writes it into a file, and again with each renewal. The clock also counts while the
// machine sleeps, so a machine that was paused for too long ends its trainer when it wakes.

// Replaces the file at `path`, which is absolute: milliseconds of CLOCK_BOOTTIME.
Result<void> write_lease(const std::string& path, std::int64_t until_boottime_ms);

class Lease {
 public:
  // An empty path: it never ends. A missing or unreadable file: it has ended.
  explicit Lease(std::string path);

  bool is_over() const { return boottime_milliseconds() >= until(); }
  // Becomes readable when it is time to call renew().
  int descriptor() const { return timer_.get(); }
  // Reads the file, and sets the timer to the end of the lease, or to one second where it is over.
  void renew();

 private:
  std::int64_t until() const;

  std::string path_;
  Descriptor timer_;
};

// Parses the files that the supervisor leaves in the run directory. No I/O; see supervisor.hpp.

// supervisor.json
struct Record {
  static constexpr std::string_view keys =
      "pid! trainer_pid! trainer_start_ticks started_boottime_ms job control_group";
  int supervisor_pid = 0;
  int trainer_pid = 0;
  std::uint64_t trainer_start_ticks = 0;
  std::int64_t started_ms = 0;  // of CLOCK_BOOTTIME
  std::string job;
  std::string control_group;  // the trainer's own; empty: it has none
};

// A process that even SIGKILL did not end (stuck in the kernel). Both are of one boot.
struct LeftOver {
  static constexpr std::string_view keys = "pid start_ticks";
  int pid = 0;
  std::uint64_t start_ticks = 0;  // the pid may be another process's by now
  friend bool operator==(const LeftOver&, const LeftOver&) = default;
};

// ended.json
struct Ended {
  static constexpr std::string_view keys =
      "exit_code signal core_dumped out_of_memory checkpoint_doubted stopped_by last_words "
      "ended_boottime_ms ran_ms trainer_pid job boot_id left_over";
  std::optional<int> exit_code;  // exactly one of the two is set
  std::optional<int> signal;
  bool core_dumped = false;
  bool out_of_memory = false;       // the kernel killed a process of its unit for that
  bool checkpoint_doubted = false;  // it failed as it started on it: the one before is there now
  std::string stopped_by;           // by whom, other than our agent; empty: by nobody
  std::string last_words;           // the end of its output: at most 4 KiB and 20 lines
  std::int64_t ended_ms = 0;        // of CLOCK_BOOTTIME
  std::int64_t ran_ms = 0;
  int trainer_pid = 0;
  std::string job;
  std::string boot_id;
  std::vector<LeftOver> left_over;
};

// The part of an output's end that becomes last_words: 20 lines at most.
std::string last_lines(std::string text);

// Only Spotter writes these files, so a damaged one is reported, not repaired. A pid of 0 or below
// is damage: kill(2) would signal other processes. `newer`: `version` (absent: 1) is a later one,
// since a package may be rolled back while a trainer runs.
inline constexpr std::uint64_t record_version = 1;
Result<Record> parse_record(std::string_view json);
Result<Ended> parse_ended(std::string_view json);

}  // namespace spotter::supervise
