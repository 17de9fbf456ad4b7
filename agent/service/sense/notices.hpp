// Polls the metadata service for notices once a second, as long as the agent runs. No answer or
// failure ends that.
#pragma once

#include <functional>
#include <set>

#include "agent/aws/imds_client.hpp"
#include "agent/decide/event.hpp"

namespace spotter::sense {

struct WatchSettings {
  // AWS recommends every 5 s; polling every second costs nothing and gains up to 4 s of 120.
  // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
  Duration every = std::chrono::seconds(1);
  int others_each = 10;        // rebalance, lifecycle state: known minutes ahead
  int maintenance_each = 600;  // planned days ahead
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
  // The time that the identity had.
  std::optional<wire::WallTime> launched() const { return launched_; }

 private:
  asio::awaitable<void> look_for_action();
  asio::awaitable<void> look_for_hints();
  asio::awaitable<void> look_for_maintenance();
  void say_once(const std::string& problem);

  ImdsClient& imds_;
  WatchSettings settings_;
  std::function<Time()> now_;
  std::function<void(decide::Happening)> deliver_;
  std::optional<wire::WallTime> launched_;
  std::optional<wire::WallTime> announced_;  // the time of the delivered notice
  std::set<std::string> maintenance_said_;
  bool leaving_group_ = false;
  bool rebalance_said_ = false;
  bool answered_ = false;
  std::string problem_;  // the last one logged
};

}  // namespace spotter::sense
