// Whether the trainer hangs: it says nothing, writes nothing, and neither processor nor GPU works.
// A machine with such a trainer costs until somebody looks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "agent/decide/event.hpp"
#include "agent/io/asio.hpp"
#include "agent/supervise/processes.hpp"

namespace spotter::sense {

// Totals of a trainer since it started; only their changes count.
struct Activity {
  std::uint64_t processor_ms = 0;  // of all its processes
  std::uint64_t signs = 0;         // bytes of output; steps and checkpoints that were reported
};

// Pure.
class Stillness {
 public:
  // At least so long without a sign; and five times the longest pause that ended in one, of all
  // trainers of this job here: `longest` is that of an earlier agent.
  explicit Stillness(Duration least, Duration longest = Duration(0))
      : least_(least), longest_(std::min(longest, most(least))) {}

  void begin(Time now);
  // True: it hangs, unless a GPU works. To be called now and then.
  bool look(Time now, const Activity& seen);
  // A GPU works, or nobody knows.
  void works(Time now) { idle_since_ = now; }
  Duration pause(Time now) const { return now - sign_at_; }
  Duration longest() const { return longest_; }

 private:
  // A pause that counts: one of hours would have a hang cost for a day.
  static Duration most(Duration least) { return 4 * least; }

  Duration least_;
  Duration longest_;
  Time sign_at_, idle_since_, looked_at_;
  Activity last_;
};

// "1234 (python3), thread 1240 pt_data_worker: sleeps in futex_wait_queue": a line for each thread
// of these processes.
std::vector<std::string> threads_of(const std::vector<supervise::Process>& processes);

class StallWatch {
 public:
  struct Parts {
    std::string run_directory;
    std::string log_file;                     // the trainer's output
    bool has_gpus = false;                    // that it uses
    std::function<std::uint64_t()> reported;  // what it has reported, counted
    std::function<void()> hung;
  };
  // Says that a trainer hangs, with what its threads wait for. `least` 0: nobody looks.
  StallWatch(asio::io_context& context, Duration least, Parts parts);

  void watch();  // a trainer has started, or runs
  void rest() {
    ++turn_;
    timer_.cancel();
  }

 private:
  void wait();
  void look();
  asio::awaitable<void> judge(std::vector<supervise::Process> processes);
  void end(const std::vector<supervise::Process>& processes);

  asio::steady_timer timer_;
  Duration least_;
  Parts parts_;
  Stillness stillness_;
  int turn_ = 0;  // another trainer's: whoever asked about the last one does nothing to it
};

}  // namespace spotter::sense
