// The process around a Guard: who else lives, what the supervisor says, what the agent hears.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>

#include "agent/guard/guard.hpp"
#include "agent/supervise/processes.hpp"
#include "agent/supervise/run_directory.hpp"

namespace spotter::guard {
namespace {

constexpr int milliseconds_between_looks = 50;

// The supervisor's other children and theirs: the trainer's processes.
class Family {
 public:
  bool somebody_died() {
    std::set<Member> now;
    bool died = false;
    for (const auto& process : supervise::descendants_of(::getppid())) {
      if (process.pid == ::getpid()) continue;
      died = died || process.exiting;
      now.emplace(process.pid, process.start_ticks);
    }
    for (const Member& member : known_) died = died || now.count(member) == 0;
    known_ = std::move(now);
    return died;
  }

 private:
  using Member = std::pair<pid_t, std::uint64_t>;
  std::set<Member> known_;
};

std::string datagram(const Saying& saying) {
  constexpr std::size_t longest = 4000;  // see wire/datagram.hpp
  std::string text = "X_SPOTTER_GUARD=1\n";
  if (saying.path.empty()) {
    std::string words = saying.words;
    for (char& each : words) each = each == '\n' ? ' ' : each;
    text += "X_SPOTTER_NOTE=" + words;
  } else {
    text += "X_SPOTTER_CHECKPOINT_STEP=" + std::to_string(saying.step) +
            "\nX_SPOTTER_CHECKPOINT=" + saying.path +
            "\nX_SPOTTER_CHECKPOINT_BYTES=" + std::to_string(saying.bytes);
  }
  return text.substr(0, longest);
}

// Nobody listens while no agent runs: what was finished stands in the record all the same.
void send(const std::string& socket, const std::string& text) {
  const auto slash = socket.rfind('/');
  if (slash == std::string::npos) return;
  using supervise::Descriptor;
  const Descriptor here(::open(socket.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const Descriptor sender(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const timeval patience{.tv_sec = 1, .tv_usec = 0};  // an agent that is busy
  ::setsockopt(sender.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const auto address = supervise::socket_address(here, socket.substr(slash + 1));
  [[maybe_unused]] const auto sent =
      ::sendto(sender.get(), text.data(), text.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

void answer(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// What the supervisor has said; empty: nothing yet.
enum class Told { Nothing, Ended, Killed, Gone };
Told hear() {
  std::array<char, 64> buffer{};
  const ssize_t got = ::read(0, buffer.data(), buffer.size());
  if (got <= 0) return Told::Gone;
  return std::string_view(buffer.data(), static_cast<std::size_t>(got)).starts_with("ended")
             ? Told::Ended
             : Told::Killed;
}

}  // namespace

int run(const Options& options) {
  std::signal(SIGPIPE, SIG_IGN);
  auto keeper = Keeper::open(options.where);
  if (!keeper) {
    answer(keeper.error().message);
    return 1;
  }
  Family family;
  Guard guard(
      *keeper, [&family] { return family.somebody_died(); },
      [&options](const Saying& saying) { send(options.socket, datagram(saying)); });
  if (const auto begun = guard.begin(options.again); !begun) {
    answer(begun.error().message);
    return 1;
  }
  answer("ready");
  for (;;) {
    const auto patience = guard.look();
    std::array<pollfd, 2> watched{pollfd{0, POLLIN, 0}, pollfd{guard.descriptor(), POLLIN, 0}};
    // A checkpoint of many gigabytes is thousands of events: they are looked at together.
    if (::poll(watched.data(), 1, milliseconds_between_looks) == 0 &&
        ::poll(watched.data(), watched.size(), static_cast<int>(patience.count())) <= 0) {
      continue;
    }
    if (watched[0].revents == 0) continue;
    const Told told = hear();
    if (told == Told::Gone) return 1;
    guard.end(told == Told::Ended);
    return 0;
  }
}

}  // namespace spotter::guard
