// Effects on the trainer: start it under its own supervisor, ask it to end, kill it.
#pragma once

#include "agent/config/job.hpp"
#include "agent/decide/effect.hpp"
#include "agent/decide/event.hpp"
#include "agent/service/act/cloud.hpp"
#include "agent/service/act/trainer_keys.hpp"

namespace spotter::act {

class Home;
class Local;

struct TrainerPaths {
  std::string program;        // the spotter binary
  std::string run_directory;  // SPOTTER_RUN
  std::string lease;          // file with the time until which the trainer may run; empty: no limit
};

// The file of its output: on this machine where the home is on a share, as a server that hangs must
// block neither trainer nor supervisor (Local::keep_log).
std::string log_file_of(const config::Job& job, const std::string& run_directory);

class Trainer {
 public:
  Trainer(const config::Job& job, TrainerPaths paths, AwsClient& aws, TrainerKeys& keys)
      : job_(job), paths_(std::move(paths)), aws_(aws), keys_(keys) {}

  using Answer = asio::awaitable<decide::Happening>;
  using Variables = std::map<std::string, std::string>;

  // Passes the effect's advice to the trainer in SPOTTER_CHECKPOINT_EVERY and SPOTTER_PACE_FILE. If
  // job.yaml sets that variable, its value is passed, and none in the file.
  Answer start(decide::StartTrainer effect, Duration limit);
  // Writes SPOTTER_PACE_FILE: {"checkpoint_every_seconds": 312.5}. With "asked_boottime_ms", the
  // trainer is asked for one checkpoint made after that time of CLOCK_BOOTTIME.
  decide::Happening pace(const decide::PaceTrainer& effect);
  // Writes SPOTTER_NOTICE_FILE, then sends the stop signal once, if the job has one.
  decide::Happening stop(const decide::StopTrainer& effect);
  decide::Happening kill();

  // With the trainer's keys; none: the job's storage is no bucket.
  std::unique_ptr<Home> home(Local& local) const;

  bool is_on_share() const { return job_.storage.share.has_value(); }

  // The job's git token; empty when it has none.
  asio::awaitable<Result<std::string, decide::EffectFailed>> code_token(Duration limit);

 private:
  asio::awaitable<Result<Variables, decide::EffectFailed>> environment(Duration limit);
  asio::awaitable<Result<void, decide::EffectFailed>> add_identity(Variables& to);
  void tell(const char* name, const nlohmann::json& what) const;
  std::vector<std::string> in_unit() const;
  std::vector<std::string> guard() const;
  std::vector<std::string> follower() const;

  const config::Job& job_;
  TrainerPaths paths_;
  AwsClient& aws_;
  TrainerKeys& keys_;
};

}  // namespace spotter::act
