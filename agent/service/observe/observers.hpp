// All observers of the agent: the journal, `spotter status`, Prometheus, the history, and
// notifications. The failure of one does not affect the job.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/service/observe/best_values.hpp"
#include "agent/service/observe/history.hpp"
#include "agent/service/observe/journal.hpp"
#include "agent/service/observe/monitor.hpp"
#include "agent/service/observe/notification_rules.hpp"
#include "agent/service/observe/notifier.hpp"
#include "agent/service/observe/publisher.hpp"
#include "agent/service/observe/status.hpp"
#include "agent/service/observe/watcher_says.hpp"

namespace spotter {

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
