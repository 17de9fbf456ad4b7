// All observers of the agent but those with files of their own: journal, publisher, best values,
// what the watcher says.
//
// The journal's lines about events, with the fields SPOTTER_STAGE, SPOTTER_STEP, INSTANCE_ID,
// VOLUME_ID, SPOTTER_ZONE.
#pragma once

#include <filesystem>

#include "agent/aws/formats/s3.hpp"
#include "agent/config/job.hpp"
#include "agent/decide/event.hpp"
#include "agent/decide/policy.hpp"
#include "agent/decide/state.hpp"
#include "agent/io/asio.hpp"
#include "agent/io/process.hpp"
#include "agent/service/act/cloud.hpp"
#include "agent/service/act/metrics.hpp"
#include "agent/service/observe/history.hpp"
#include "agent/service/observe/monitor.hpp"
#include "agent/service/observe/notifier.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/wire/datagram.hpp"

namespace spotter {

class Journal {
 public:
  // Makes the end of `printed` (the output of cloud-init and the user data) the first log line kept
  // with the job (io/log.hpp). Once a boot: it leaves a mark in `run_directory`.
  static void remember_boot(const fs::path& printed, const fs::path& run_directory);
  // To be called after each step of the core. `moved`: the stage has changed.
  void on_event(const decide::Event& event, const decide::State& state,
                const decide::Policy& policy, bool moved);
  // The last line about the stage, which is also the service's STATUS.
  const std::string& said() const { return said_; }

 private:
  void record_surrender(decide::Surrender why);

  std::string said_;
  decide::Surrender surrender_ = decide::Surrender::None;
};

// Publishes the job in S3: `publish:` of job.yaml. Every two minutes, and at once when something
// happens, a child process (`spotter publish`) writes this agent's status, history and learning
// curve to S3, and what the trainer printed; the latter alone five seconds after it changed.
// Nothing waits for it; what fails is written the next time.
class Publisher {
 public:
  // REQUIRES: the job has a place; `history` outlives it. Nothing is written before the history has
  // a segment().
  Publisher(asio::io_context& context, std::string run_directory, const config::Job& job,
            const HistoryFile& history);

  void on_message(const wire::TrainerMessage& message);
  void on_entry(const wire::HistoryEntry& entry);
  // `now`: whether this machine has the job. The status is the job's, so of several machines only
  // one writes it. An agent that has released the job writes that once, then no status any more.
  void publish_status(bool now);
  // Writes for the last time, and blocks for it: `at_most` at the longest.
  void end(std::chrono::milliseconds at_most);

 private:
  asio::awaitable<void> work();
  bool has_output() const;
  asio::awaitable<void> publish_output(std::chrono::milliseconds patience);
  asio::awaitable<void> publish(std::chrono::milliseconds patience);
  io::ProcessRequest request(std::chrono::milliseconds patience) const;
  io::ProcessRequest request(const act::Metrics::News& news,
                             std::chrono::milliseconds patience) const;
  bool judge(const io::ProcessResult& result);  // true: all was written

  std::string run_directory_, job_;
  wire::S3Location place_;
  const HistoryFile& history_;
  asio::steady_timer next_;
  act::Metrics metrics_;
  std::optional<act::Metrics::News> sending_;
  std::size_t history_sent_ = 0;      // its size at the last write
  fs::file_time_type output_sent_{};  // the last change of its folder
  bool speaks_ = false;
  bool last_word_ = false;  // still to be written
  bool busy_ = false;
  bool soon_ = false;
  bool failing_ = false;  // was logged
};

// Writes what the trainer reports of the metric of `checkpoints.keep_best` to the run directory,
// where the guard reads it (supervise/run_directory.hpp).

class BestValues {
 public:
  // Without `checkpoints.keep_best` it does nothing. Goes on with what an earlier agent wrote.
  BestValues(asio::io_context& context, const config::Job& job, std::string run_directory);

  void on_message(const wire::TrainerMessage& message, std::chrono::system_clock::time_point now);

 private:
  void write();

  std::optional<std::string> metric_;
  std::string as_in_log_;  // what its column is called with us
  std::string path_;
  supervise::ReportedValues values_;
  asio::steady_timer next_;  // runs: what came since the last write is written when it expires
  bool waits_ = false;
  bool unwritten_ = false;
  std::string last_trouble_;
};

// The notes of `spotter watch` on this job: on what it runs next and when, and the prices that this
// depends on. They are a tag of the fleet, which the instance's role may read; without a fleet or
// that right nothing is said.
class WatcherSays {
 public:
  using Say = std::function<void(std::string)>;  // a sentence; empty: nobody watches
  // REQUIRES: `cloud` outlives it. Asks nothing for a job that needs no watcher.
  WatcherSays(asio::io_context& context, act::Cloud& cloud, const config::Job& job, Say say)
      : context_(context),
        cloud_(cloud),
        wanted_(job.launch && job.launch->on_demand.needs_watcher()),
        say_(std::move(say)) {}

  // To be called after each step of the core: asks from time to time, while the trainer runs.
  void on_event(const decide::State& state, Time now);

 private:
  asio::awaitable<void> ask(Fleet fleet);

  asio::io_context& context_;
  act::Cloud& cloud_;
  bool wanted_;
  Say say_;
  Time next_{};
  bool asking_ = false;
};

// All observers of the agent: the journal, `spotter status`, Prometheus, the history, and
// notifications. The failure of one does not affect the job.
class Observers {
 public:
  // References must outlive it.
  Observers(asio::io_context& context, const config::Job& job, const decide::Policy& policy,
            const std::string& run_directory, Monitor::Sources sources);

  // A message of the trainer.
  void on_message(const wire::TrainerMessage& message, Time now);
  // A report of the gang that this machine is a member of.
  void on_gang(const wire::GangReport& gang, Time now);
  // To be called after each step of the core; `before`: the index of the stage before it.
  void on_event(const decide::Event& event, const decide::State& state, std::size_t before);
  // Notifications are sent from now on, and the fleet's tag is read: they need AWS access.
  void reach_aws(asio::io_context& context, io::HttpClient& http, act::AwsClient& client,
                 act::Cloud& cloud, const config::Job& job);
  // Returns when all observers are done, after `at_most` at the latest.
  asio::awaitable<void> finish(Duration at_most);
  // To be called before an effect is carried out.
  void on_effect(const decide::Effect& effect) { history_.on_effect(effect); }
  // To be called when the agent ends. Publishes that, within `at_most`.
  void on_end(const decide::State& state, Duration at_most);
  // Shows it to a person under that key of the status: "storage_says", the trouble with the storage
  // (it hangs or fails), or "capacity_says", until when there is capacity for this machine.
  void says(const char* key, std::string words, Time now);
  // Takes how much of a cold volume was read.
  void volume_warms(const act::Local::Warmth& is, Time now);

  // Its file has the lines for the storage.
  History& history() { return history_; }

 private:
  std::string says(const decide::State& state) const;
  void update(Time now, bool at_once);

  const decide::Policy& policy_;
  std::function<const decide::State*()> state_;
  std::uint64_t gang_rounds_ = 0;  // the last that was said
  Journal journal_;
  Status status_;
  Monitor monitor_;
  BestValues best_values_;
  NotificationRules rules_;
  std::unique_ptr<Notifier> notifier_;
  std::unique_ptr<WatcherSays> watcher_says_;
  History history_;
  std::unique_ptr<Publisher> publisher_;  // if job.yaml has `publish:`
};

}  // namespace spotter
