// The trainer's life as effects: start it under its own supervisor, tell it to end, kill it.
#pragma once

#include <string>

#include "agent/decide/effect.hpp"
#include "agent/decide/event.hpp"
#include "agent/job/job.hpp"
#include "agent/service/act/cloud.hpp"
#include "agent/service/act/trainer_keys.hpp"

namespace spotter::act {

struct TrainerPaths {
  std::string program;        // the spotter binary
  std::string run_directory;  // SPOTTER_RUN
  std::string lease;          // until when the trainer may run; empty: for ever
};

class Trainer {
 public:
  Trainer(const config::Job& job, TrainerPaths paths, AwsClient& aws, TrainerKeys& keys)
      : job_(job), paths_(std::move(paths)), aws_(aws), keys_(keys) {}

  using Answer = asio::awaitable<decide::Happening>;
  using Variables = std::map<std::string, std::string>;
  template <class T>
  using Read = tl::expected<T, decide::EffectFailed>;

  // The trainer finds what the effect advises in SPOTTER_CHECKPOINT_EVERY and SPOTTER_PACE_FILE;
  // where job.yaml sets that variable, its value there, and none in the file.
  Answer start(decide::StartTrainer effect, Duration limit);
  // Writes SPOTTER_PACE_FILE: {"checkpoint_every_seconds": 312.5}, and with "asked_boottime_ms" a
  // checkpoint of a moment after that one of CLOCK_BOOTTIME is wanted, once.
  decide::Happening pace(const decide::PaceTrainer& effect);
  // Writes SPOTTER_NOTICE_FILE, then sends the stop signal (if the job has one), once.
  decide::Happening stop(const decide::StopTrainer& effect);
  decide::Happening kill();

  bool is_on_share() const { return job_.storage.share.has_value(); }

  // The job's git token; empty when it has none.
  asio::awaitable<Read<std::string>> code_token(Duration limit);

 private:
  asio::awaitable<Read<Variables>> environment(Duration limit);
  asio::awaitable<Read<void>> add_identity(Variables& to);
  std::vector<std::string> in_unit() const;

  const config::Job& job_;
  TrainerPaths paths_;
  AwsClient& aws_;
  TrainerKeys& keys_;
};

}  // namespace spotter::act
