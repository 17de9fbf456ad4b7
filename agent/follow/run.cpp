// The process around a Follower.
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>

#include "agent/follow/follower.hpp"
#include "agent/io/files.hpp"
#include "agent/supervise/run_directory.hpp"

namespace spotter::follow {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int milliseconds_between_looks = 500;
constexpr milliseconds time_to_end(800);       // the supervisor waits for a second
constexpr milliseconds patience(200);          // for an agent that is busy
constexpr std::size_t curve_limit = 8U << 20;  // as host/records.hpp has it

std::optional<std::uint64_t> last_step(const std::string& curve) {
  const auto text = io::read_file(curve, curve_limit);
  if (!text) return std::nullopt;
  const auto last = wire::parse_curve(*text).curve.last();
  return last ? std::optional(last->step) : std::nullopt;
}

}  // namespace

int run(const Options& options) {
  std::signal(SIGPIPE, SIG_IGN);
  const auto began = Clock::now();
  const auto since = [&began] {
    return std::chrono::duration_cast<milliseconds>(Clock::now() - began);
  };
  Follower follower(options, last_step(options.curve), [&options](const std::string& text) {
    return supervise::send_datagram(options.socket, text, patience);
  });
  follower.begin();
  std::printf("ready\n");
  std::fflush(stdout);
  bool more = false;
  for (;;) {
    pollfd watched{0, POLLIN, 0};
    const int seen = ::poll(&watched, 1, more ? 0 : milliseconds_between_looks);
    if (seen > 0) break;
    more = follower.look(since());
  }
  std::array<char, 64> word{};
  if (::read(0, word.data(), word.size()) <= 0) return 1;
  const auto end = Clock::now() + time_to_end;
  do more = follower.look(since());
  while ((more || !follower.is_done()) && Clock::now() < end);
  follower.end();
  return 0;
}

}  // namespace spotter::follow
