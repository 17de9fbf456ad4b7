// Sends what a person wants to be told (notification_rules.hpp) to where job.yaml says: one POST to
// a web hook, in the form that Slack takes and others (Mattermost, Discord's /slack, Rocket.Chat)
// took over, and one message to a topic of SNS. Nothing waits for it; in vain, a line in the
// journal says so.
#pragma once

#include <deque>
#include <string>

#include "agent/aws/aws_client.hpp"
#include "agent/job/job.hpp"
#include "agent/service/observe/notification_rules.hpp"

namespace spotter {

class Notifier {
 public:
  // References must outlive it, and it the io_context's run.
  Notifier(asio::io_context& context, io::HttpClient& http, act::AwsClient& aws,
           const config::Job& job)
      : context_(context), http_(http), aws_(aws), job_(job) {}

  // Unless `notify.on` leaves this event out. Of an experiment under a claim only what failed is
  // told: for the rest its machine speaks (machine.hpp).
  void tell(const Notification& notification);
  // Returns when nothing is left to send, at the latest after so long: then false.
  asio::awaitable<bool> drain(Duration at_most);

 private:
  using Send = asio::awaitable<Result<void>> (Notifier::*)(const Notification&);
  // One way does not wait for the other.
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
