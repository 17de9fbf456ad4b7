// Sends notifications (notification_rules.hpp) as job.yaml says: one POST to a web hook, in Slack's
// format, which others accept (Mattermost, Discord's /slack, Rocket.Chat), and one message to an
// SNS topic. Nothing waits for it; a failure is logged to the journal.
#pragma once

#include <deque>

#include "agent/aws/aws_client.hpp"
#include "agent/config/job.hpp"
#include "agent/service/observe/notification_rules.hpp"

namespace spotter {

class Notifier {
 public:
  // REQUIRES: references outlive it, and it outlives the io_context's run.
  Notifier(asio::io_context& context, io::HttpClient& http, act::AwsClient& aws,
           const config::Job& job)
      : context_(context), http_(http), aws_(aws), job_(job) {}

  // Sends it unless `notify.on` leaves this event out. An experiment under a claim sends only
  // failures: its machine sends the rest (machine.hpp).
  void send(const Notification& notification);
  // Returns true when all is sent, and false after `at_most`.
  asio::awaitable<bool> drain(Duration at_most);

 private:
  using Send = asio::awaitable<Result<void>> (Notifier::*)(const Notification&);
  // The two do not wait for one another.
  struct Way {
    Send send;
    std::deque<Notification> waiting = {};
    bool sending = false;
  };
  void add(Way& way, const Notification& notification);
  asio::awaitable<void> send_all(Way& way);
  asio::awaitable<Result<void>> post(const Notification& notification);
  asio::awaitable<Result<void>> publish(const Notification& notification);

  asio::io_context& context_;
  io::HttpClient& http_;
  act::AwsClient& aws_;
  const config::Job& job_;
  Way hook_{&Notifier::post}, topic_{&Notifier::publish};
};

}  // namespace spotter
