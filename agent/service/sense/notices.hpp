// Polls the metadata service for notices once a second, as long as the agent runs, and EC2 for the
// end of the capacity reservation in which the instance is. No answer or failure ends that.
#pragma once

#include <functional>

#include "agent/aws/aws_client.hpp"
#include "agent/aws/imds_client.hpp"
#include "agent/decide/event.hpp"

namespace spotter::sense {

struct WatchSettings {
  // AWS recommends every 5 s; polling every second costs nothing and gains up to 4 s of 120.
  // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
  Duration every = std::chrono::seconds(1);
  int others_each = 10;  // rebalance, lifecycle state: known minutes ahead
  // False: a machine that need be no instance of EC2 (`spotter run`): where the service has not
  // answered by a few looks it is not asked any more, and nothing is said of it.
  bool expected = true;
  bool asked = true;  // false: not even that
};

class Notices {
 public:
  Notices(ImdsClient& imds, WatchSettings settings, std::function<Time()> now,
          std::function<void(decide::Happening)> deliver)
      : imds_(imds), settings_(settings), now_(std::move(now)), deliver_(std::move(deliver)) {}

  asio::awaitable<void> watch();
  asio::awaitable<decide::Happening> read_identity();
  // So often, a second apart. None: it was not learned.
  asio::awaitable<std::optional<decide::IdentityRead>> await_identity(std::uint32_t tries);
  // The time that the identity had.
  std::optional<wire::WallTime> launched() const { return launched_; }

 private:
  asio::awaitable<void> look_for_action();
  asio::awaitable<void> look_for_hints();
  void say_once(const std::string& problem);

  ImdsClient& imds_;
  WatchSettings settings_;
  std::function<Time()> now_;
  std::function<void(decide::Happening)> deliver_;
  std::optional<wire::WallTime> launched_;
  std::optional<wire::WallTime> announced_;  // the time of the delivered notice
  bool leaving_group_ = false;
  bool rebalance_said_ = false;
  bool answered_ = false;
  std::string problem_;  // the last one logged
};

// Looks at the capacity reservation in which this instance runs: its end takes the instance away.
// EventBridge says so 40 minutes before the end of a block, and two minutes before an interruptible
// reservation gives an instance back; no page of AWS's says that the metadata service has it.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-monitor.html
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitor-interruptible-cr.html
class Reservation {
 public:
  struct Parts {
    std::function<Time()> now;
    std::function<InstanceId()> instance;  // empty: not known yet
    std::function<void(decide::Happening)> deliver;
    std::function<void(std::string)> say;  // until when there is capacity, for a person
    bool expected = false;                 // the job was launched into one
    Duration every = std::chrono::seconds(15);
  };
  Reservation(act::AwsClient& aws, Parts parts) : aws_(aws), parts_(std::move(parts)) {}

  // Returns when it is known that the instance is in none that ends.
  asio::awaitable<void> watch();

 private:
  asio::awaitable<bool> learn();  // false: the instance is in none
  asio::awaitable<void> look();
  asio::awaitable<std::optional<wire::CapacityReservation>> ask(std::string id);
  void see_block(const wire::CapacityReservation& block);
  void see_lent(std::uint64_t lent);
  void leave(Time deadline, Duration leeway);
  void say(const std::string& words);
  void complain(const CallError& error);

  act::AwsClient& aws_;
  Parts parts_;
  std::string id_;
  std::string said_, problem_;
  std::optional<wire::WallTime> announced_;  // the end of the block that was delivered
  std::optional<std::uint64_t> lent_;        // at the last look
  Time looked_{};                            // when that was
  bool reclaimed_ = false;                   // and that was delivered
};

}  // namespace spotter::sense
