// A machine's process of a gang: `spotter gang`, torchrun's parent.
#pragma once

#include <sysexits.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "agent/io/local_server.hpp"
#include "agent/io/random.hpp"
#include "agent/tools/gang/gang_clerk.hpp"
#include "agent/tools/gang/gang_folder.hpp"
#include "agent/tools/gang/gang_launcher.hpp"
#include "agent/tools/gang/gang_notice.hpp"
#include "agent/tools/gang/gang_patience.hpp"
#include "agent/tools/gang/gang_ranks.hpp"
#include "agent/tools/gang/gang_reporter.hpp"

namespace spotter::command {

inline constexpr std::chrono::milliseconds gang_tick{50};
// From the time that no round will have this machine until the command ends by itself.
inline constexpr Duration patience_with_refused{60'000};

// For a person, on stderr.
void say_of_gang(const std::string& words);

struct GangOptions {
  std::string at, job, name, home, checkpoints = "checkpoints", result, processes = "1";
  std::size_t size = 1, min = 1;
  bool replaced = false;
  std::int64_t lease = 60'000, stall = 0;
  std::uint64_t copy_every = 0;  // steps; 0: no copies of the state in memory
  std::vector<std::string> command;
};

class GangProcess {
 public:
  GangProcess(GangOptions options, wire::S3Location at, gang::Settings settings)
      : options_(std::move(options)),
        agents_notice_(std::getenv("SPOTTER_NOTICE_FILE") ? std::getenv("SPOTTER_NOTICE_FILE")
                                                          : ""),
        token_(io::random_hex(32)),
        participant_(std::move(settings)),
        clerk_(
            context_, std::move(at),
            [](const std::string& what) { say_of_gang(what.empty() ? "S3 answers again" : what); }),
        launcher_(context_, options_.command, [this](int status) { launcher_ended(status); }),
        server_(context_, [this](io::LocalRequest request) { return answer(std::move(request)); }),
        signals_(context_, SIGTERM, SIGINT, SIGHUP),
        timer_(context_),
        stall_(Duration(options_.stall)),
        patience_(patience_with_refused) {
    signals_.add(SIGUSR1);
    signals_.add(SIGUSR2);
  }

  int run();

 private:
  void tick();
  void keep_round();
  void watch_launch();
  void watch_refused();
  void watch_ranks();
  void end_workers();
  void look_for_notice();
  void await_signal();
  void launch();
  void launcher_ended(int status);
  void decide_end();
  bool ended_well();
  void end(int status) {
    status_ = status;
    context_.stop();
  }
  void tell(const std::optional<gang::Stop>& stop);
  asio::awaitable<io::LocalResponse> answer(io::LocalRequest request);
  gang::Last became(const std::string& target, std::optional<gang::End> end) const;
  gang::Last missed(std::size_t rank) const;
  asio::awaitable<io::LocalResponse> place(std::uint64_t asking);

  asio::io_context context_{1};
  GangOptions options_;
  std::string agents_notice_, token_;
  gang::Participant participant_;
  GangClerk clerk_;
  GangLauncher launcher_;
  io::LocalServer server_;
  asio::signal_set signals_;
  asio::steady_timer timer_;
  GangNotice notice_;
  GangReporter reporter_;
  GangRanks ranks_;
  std::optional<GangFolder> copies_;  // of the state, in memory
  gang::StallWatch stall_;
  GangPatience patience_;
  Time looked_at_ranks_{};

  Time looked_for_notice_{};
  std::optional<StopBy> own_;  // this machine's own notice
  std::string said_;           // the last words about the others
  pid_t torchrun_ = 0;
  std::uint64_t asked_ = 0;          // questions for a round; only the last is answered
  std::uint64_t placed_ = 0;         // the last that was answered
  std::optional<gang::Place> last_;  // that this machine got
  std::optional<int> ended_;         // the launcher's exit status
  std::optional<Time> ending_;       // since when its workers are ended
  std::optional<gang::End> end_;     // of the workers, where this process ended them
  bool again_ = false;               // it was killed, to be started again
  bool refused_ = false;             // since its start, when it asked for a round
  bool in_vain_ = false;             // it was killed, since no round would have it
  bool has_asked_ = false;           // ever, for a round
  int launches_ = 0;                 // of torchrun, since one of them asked
  Time launched_at_{};
  Duration launch_took_{};  // the first, until it asked
  std::optional<Time> go_until_;
  int status_ = EX_SOFTWARE;
};

}  // namespace spotter::command
