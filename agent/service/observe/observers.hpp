// Everybody who is told what the agent does, each in their own way: the journal, `spotter status`,
// Prometheus, a person who is elsewhere. What one of them costs or lacks is no matter of the job's.
#pragma once

#include <memory>
#include <string>

#include "agent/service/observe/history.hpp"
#include "agent/service/observe/journal.hpp"
#include "agent/service/observe/monitor.hpp"
#include "agent/service/observe/notification_rules.hpp"
#include "agent/service/observe/notifier.hpp"
#include "agent/service/observe/publisher.hpp"
#include "agent/service/observe/status.hpp"

namespace spotter {

class Observers {
 public:
  // References must outlive it.
  Observers(asio::io_context& context, const config::Job& job, const decide::Policy& policy,
            const std::string& run_directory, Monitor::Sources sources);

  // What the trainer said.
  void hear(const wire::TrainerMessage& message, Time now);
  // After each step of the core; `before`: the index of the stage before it.
  void tell(const decide::Event& event, const decide::State& state, std::size_t before);
  // From now on notifications are sent, too: it takes AWS to.
  void notify_by(std::unique_ptr<Notifier> notifier) { notifier_ = std::move(notifier); }
  // Returns when everybody has heard it all, at the latest after so long.
  asio::awaitable<void> finish(Duration at_most);
  // Before an effect is carried out.
  void ask(const decide::Effect& effect) { history_.ask(effect); }
  // The agent ends: what is published says so, after so long at most.
  void leave(const decide::State& state, Duration at_most);
  // What of the storage hangs or fails, for a person; empty: nothing.
  void storage_says(std::string words, const decide::State& state, Time now);

  // Its file has what is to be kept on the storage.
  History& history() { return history_; }

 private:
  const decide::Policy& policy_;
  Journal journal_;
  Status status_;
  Monitor monitor_;
  NotificationRules rules_;
  std::unique_ptr<Notifier> notifier_;
  History history_;
  std::unique_ptr<Publisher> publisher_;  // where job.yaml wants one
};

}  // namespace spotter
