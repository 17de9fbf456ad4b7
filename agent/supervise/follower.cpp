#include "agent/supervise/follower.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "agent/supervise/trainer.hpp"

namespace spotter::supervise {
namespace {

constexpr int milliseconds_to_read_what_is_there = 5000;  // of the agent's 30 s for a start
constexpr int milliseconds_to_read_the_last = 1000;

}  // namespace

bool Follower::spawn(const std::vector<std::string>& arguments) {
  std::array<int, 2> input{};
  std::array<int, 2> output{};
  if (pipe2(input.data(), O_CLOEXEC) != 0) return false;
  const Descriptor its_input(input[0]);
  stdin_ = Descriptor(input[1]);
  if (pipe2(output.data(), O_CLOEXEC) != 0) return false;
  stdout_ = Descriptor(output[0]);
  const Descriptor its_output(output[1]);
  launch_.arguments = arguments;
  // It needs no such sockets; the trainer's user may change what it does (ptrace(2)).
  const auto bound = launch_.refuse_metadata ? BoundSockets::Forbidden : BoundSockets::Allowed;
  const auto spawned =
      spawn_as_trainer(launch_, {its_input.get(), its_output.get(), log_}, bound, control_group_);
  if (spawned) pid_ = *spawned;
  if (!spawned) dprintf(log_, "spotter: %s\n", spawned.error().message.c_str());
  return spawned.has_value();
}

// Without the trainer's environment, which has secrets, and in no folder, which it would keep busy.
void Follower::start(const Launch& trainer, const Descriptor& log,
                     const std::string& control_group) {
  if (arguments_.empty()) return;
  launch_ = trainer;
  launch_.shell = arguments_.front();
  launch_.environment = {"LANG=C.UTF-8"};
  launch_.working_directory = "/";
  log_ = log.get();
  control_group_ = control_group;
  if (!spawn(arguments_)) return;
  pollfd watched{stdout_.get(), POLLIN, 0};
  while (poll(&watched, 1, milliseconds_to_read_what_is_there) < 0 && errno == EINTR) continue;
}

void Follower::restart() {
  pid_ = 0;
  if (restarts_left_-- <= 0) return;
  auto again = arguments_;
  again.emplace_back("--again");
  spawn(again);
}

void Follower::end() {
  if (pid_ == 0) return;
  restarts_left_ = 0;
  constexpr std::string_view word = "ended\n";
  [[maybe_unused]] const auto written = write(stdin_.get(), word.data(), word.size());
  constexpr int step = 10;
  for (int waited = 0; waited < milliseconds_to_read_the_last; waited += step) {
    const pid_t ended = waitpid(pid_, nullptr, WNOHANG);
    if (ended != 0) break;
    usleep(step * 1000);
  }
  pid_ = 0;
}

}  // namespace spotter::supervise
