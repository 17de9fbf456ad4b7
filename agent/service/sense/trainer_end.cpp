#include "agent/service/sense/trainer_end.hpp"

#include <signal.h>
#include <spdlog/spdlog.h>

#include "agent/io/log.hpp"
#include "agent/wire/events.hpp"

namespace spotter::sense {
namespace {

using spdlog::level::err;
using spdlog::level::info;
constexpr int killed_below_a_shell = 128 + SIGKILL;

std::string describe(const supervise::Ended& ended) {
  const int number = ended.signal.value_or(0);
  const std::string how = ended.exit_code ? "exit status " + std::to_string(*ended.exit_code)
                                          : "signal " + std::to_string(number);
  if (ended.out_of_memory)
    return how + ": the kernel killed for want of memory; see trainer.memory_max of job.yaml";
  if (ended.exit_code ? *ended.exit_code != killed_below_a_shell : number != SIGKILL) return how;
  return how + ": killed; if by nobody, then by the kernel for want of memory: see `journalctl -k`";
}

void say(const supervise::Ended& ended, const supervise::Verdict& verdict, bool shown) {
  const double ran = std::chrono::duration<double>(ended.ran).count();
  const std::string how = describe(ended);
  if (verdict.success) {
    io::note(wire::event("trainer-finished"), info, "the trainer finished after {:.1f} s ({})", ran,
             how);
  } else if (verdict.stopped_as_asked) {
    io::note(wire::event("trainer-stopped"), info, "the trainer ended as asked after {:.1f} s ({})",
             ran, how);
  } else if (shown) {
    io::note(wire::event("trainer-failed"), err, "the trainer failed after {:.1f} s ({})", ran,
             how);
  } else {
    io::note(wire::event("trainer-failed"), err,
             "the trainer failed after {:.1f} s ({}). Its last words:\n{}", ran, how,
             ended.last_words);
  }
}

}  // namespace

void TrainerEnd::watch() {
  const auto supervised = supervise::look(run_directory_);
  const auto* running = supervised ? std::get_if<supervise::Running>(&*supervised) : nullptr;
  if (!running) return look_soon();
  const auto pidfd = supervise::open_pidfd(running->supervisor_pid);
  if (!pidfd) return look_soon();
  pidfd_.emplace(context_, *pidfd);
  pidfd_->async_wait(asio::posix::stream_descriptor::wait_read,
                     [this](boost::system::error_code error) {
                       if (error) return;
                       pidfd_.reset();
                       look();
                     });
}

// It is just starting or ending.
void TrainerEnd::look_soon() {
  timer_.expires_after(std::chrono::milliseconds(100));
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) look();
  });
}

void TrainerEnd::look() {
  const auto supervised = supervise::look(run_directory_);
  const auto* ended = supervised ? std::get_if<supervise::Ended>(&*supervised) : nullptr;
  if (ended) {
    const supervise::Verdict verdict = supervise::judge(*ended, expect_());
    say(*ended, verdict, shown_);
    return ended_({verdict.success, verdict.stopped_as_asked, verdict.unfit_machine,
                   verdict.checkpoint_doubted});
  }
  const bool runs = supervised && (std::holds_alternative<supervise::Running>(*supervised) ||
                                   std::holds_alternative<supervise::Starting>(*supervised));
  if (runs) return watch();
  io::note(wire::event("trainer-lost"), err,
           "the trainer's supervisor was killed, and the trainer with it");
  ended_({});
}

}  // namespace spotter::sense
