// The newest report of the gang, as long as it says anything of now.
#pragma once

#include "agent/decide/state.hpp"
#include "agent/launch/deadline.hpp"
#include "agent/service/act/local.hpp"
#include "agent/wire/datagram.hpp"

namespace spotter {

class GangSeen {
 public:
  void take(const wire::GangReport& report, Time now) {
    if (!report_ || report_->rounds != report.rounds) round_at_ = now;
    report_ = report;
    at_ = now;
  }
  // Null: no trainer runs, or nothing was reported lately.
  const wire::GangReport* current(const decide::Facts& facts, Time now) const {
    const bool says = facts.trainer.running && now - at_ < wire::longest_gang_silence;
    return says && report_ ? &*report_ : nullptr;
  }
  // When its last round was first reported.
  Time round_at() const { return round_at_; }

 private:
  std::optional<wire::GangReport> report_;
  Time at_{}, round_at_{};
};

// Writes SPOTTER_RUN/status.json, which `spotter status` shows. A file, not a socket, so that it
// can be read without the agent, even after that has died.

class Status {
 public:
  // REQUIRES: the job outlives it.
  Status(std::string path, const config::Job& job) : path_(std::move(path)), job_(job) {}

  void observe(const wire::TrainerMessage& message, Time now);
  void observe(const wire::GangReport& gang, Time now) { gang_.take(gang, now); }
  // Under this key: for a person, what somebody says; empty: nothing.
  void say(const char* key, std::string words) { said_[key] = std::move(words); }
  // Takes how much of a cold volume was read (act::Warming).
  void volume_warms(const act::Local::Warmth& is) { warmth_ = is; }
  // Writes the file, at most five times a second unless the stage has changed. `says`: the stage in
  // a sentence.
  void update(const decide::State& state, const std::string& says, Time now, bool stage_changed);
  // The outlook in the file. None: the job has no deadline, or its result is safe.
  const std::optional<launch::OwnOutlook>& outlook() const { return outlook_; }

 private:
  void look_ahead(const decide::Facts& facts);

  std::string path_;
  const config::Job& job_;
  std::optional<launch::OwnOutlook> outlook_;
  wire::Progress progress_;
  launch::StepPace pace_;
  std::string trainer_says_;
  std::map<std::string, std::string> said_;
  std::optional<double> window_trained_;
  act::Local::Warmth warmth_;
  GangSeen gang_;
  Time written_{};
};

// The same file for a worker of a sweep: its sentence, what is wrong with the claims (empty:
// nothing), and the run directory of its experiment's agent.
struct WorkerStatus {
  std::string job, words, trouble, run_directory;
};
void write_worker_status(const std::string& path, const WorkerStatus& worker);

}  // namespace spotter
