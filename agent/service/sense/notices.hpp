// Watches the metadata service for what it may announce, once a second, for as long as the agent
// lives. Nothing it answers, or does not answer, ends the watching.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "agent/aws/imds_client.hpp"
#include "agent/decide/event.hpp"

namespace spotter::sense {

struct WatchSettings {
  // AWS recommends every 5 s; a second costs nothing and gains up to 4 s of 120.
  // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
  Duration every = std::chrono::seconds(1);
  int others_each = 10;        // rebalance, lifecycle state: a hint, and minutes ahead
  int maintenance_each = 600;  // planned days ahead
};

class Notices {
 public:
  Notices(ImdsClient& imds, WatchSettings settings, std::function<Time()> now,
          std::function<void(decide::Happening)> deliver)
      : imds_(imds), settings_(settings), now_(std::move(now)), deliver_(std::move(deliver)) {}

  asio::awaitable<void> watch();
  asio::awaitable<decide::Happening> read_identity();

 private:
  asio::awaitable<void> look_for_action();
  asio::awaitable<void> look_for_hints();
  asio::awaitable<void> look_for_maintenance();
  void say_once(const std::string& problem);

  ImdsClient& imds_;
  WatchSettings settings_;
  std::function<Time()> now_;
  std::function<void(decide::Happening)> deliver_;
  std::optional<wire::WallTime> announced_;  // the notice that was delivered, by its own time
  std::set<std::string> maintenance_said_;
  bool leaving_group_ = false;
  bool rebalance_said_ = false;
  std::string problem_;  // said in the journal, until it changes
};

}  // namespace spotter::sense
