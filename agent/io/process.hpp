// A child process, awaited without blocking the one thread: started with posix_spawn, watched
// through a pidfd (pidfd_open(2)), never through SIGCHLD.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/io/asio.hpp"

namespace spotter::io {

struct ProcessRequest {
  std::vector<std::string> argv;  // argv[0] without a slash is looked up in PATH
  std::optional<std::vector<std::string>> environment;  // the whole of it, "NAME=value"; none: ours
  std::string stdin_text;                               // empty: /dev/null
  std::string directory;                                // empty: ours
  std::chrono::milliseconds timeout{60'000};
  std::size_t output_limit = 1U << 20;  // bytes kept of each stream; the rest is read and dropped
  std::chrono::milliseconds kill_grace{2'000};  // from SIGTERM to SIGKILL
};

struct ProcessResult {
  enum class End {
    Exited,      // by itself; status: exit status
    Signalled,   // by a signal that was not ours; status: the signal
    TimedOut,    // we ended it after `timeout`; status: the signal that did, or the exit status
    Cancelled,   // we ended it because the awaiting coroutine was cancelled
    NotStarted,  // status: errno of the spawn (ENOENT: no such program)
  };
  End end = End::NotStarted;
  int status = 0;
  std::string output;
  std::string errors;
  bool output_cut = false;
  bool errors_cut = false;
};

// Runs the program in a process group of its own and answers once its leader has ended and been
// reaped. Whatever is left of the group then is killed, so nothing outlives the answer; a
// descendant that left the group and still holds the pipes is waited for 200 ms. On timeout and on
// cancellation (every type): SIGTERM to the group, SIGKILL after the grace; cancellation ends in an
// answer, not in an exception. A process that even SIGKILL does not end at once (stuck in the
// kernel) is answered for after another grace and reaped whenever it does end. If the io_context is
// destroyed first, the group is killed.
asio::awaitable<ProcessResult> run(ProcessRequest request);

// The last whole lines that a program printed, as many as have `most` bytes together: it says at
// last why it fails, after whatever its libraries and its loader remark. A last line that is longer
// is cut at its end.
std::string_view last_lines(std::string_view printed, std::size_t most);

}  // namespace spotter::io
