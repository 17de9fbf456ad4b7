// Writes what the trainer reports of the metric of `checkpoints.keep_best` to the run directory,
// where the guard reads it (supervise/run_directory.hpp).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/decide/state.hpp"
#include "agent/io/asio.hpp"
#include "agent/job/job.hpp"
#include "agent/service/act/cloud.hpp"
#include "agent/service/observe/history.hpp"
#include "agent/service/observe/monitor.hpp"
#include "agent/service/observe/notification_rules.hpp"
#include "agent/service/observe/notifier.hpp"
#include "agent/service/observe/status.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/wire/datagram.hpp"

namespace spotter {

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

// What `spotter watch` wrote down of this job: on what it runs next and when, and the prices that
// this depends on. It is a tag of the fleet, which the instance's role may read; no fleet and no
// right to it mean that nothing is said.
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
  // References must outlive it. `deadline`: none of a job that is not of a file.
  Observers(asio::io_context& context, const config::Job& job,
            const Result<config::Deadline>& deadline, const decide::Policy& policy,
            const std::string& run_directory, Monitor::Sources sources);

  // A message of the trainer.
  void on_message(const wire::TrainerMessage& message, Time now);
  // Of the gang that this machine is a member of.
  void on_gang(const wire::GangReport& gang, Time now);
  // To be called after each step of the core; `before`: the index of the stage before it.
  void on_event(const decide::Event& event, const decide::State& state, std::size_t before);
  // Notifications are sent from now on, and the fleet's tag is read: they need AWS access.
  struct Aws {
    asio::io_context& context;
    io::HttpClient& http;
    act::AwsClient& client;
    act::Cloud& cloud;
    const config::Job& job;
  };
  void reach_aws(const Aws& aws);
  // Returns when all observers are done, after `at_most` at the latest.
  asio::awaitable<void> finish(Duration at_most);
  // To be called before an effect is carried out.
  void on_effect(const decide::Effect& effect) { history_.on_effect(effect); }
  // To be called when the agent ends. Publishes that, within `at_most`.
  void on_end(const decide::State& state, Duration at_most);
  // What is wrong with the storage (it hangs or fails), for a person; empty: nothing.
  void storage_says(std::string words, const decide::State& state, Time now);

  // Its file has the lines for the storage.
  History& history() { return history_; }

 private:
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
