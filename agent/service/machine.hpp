// The machine that this process runs on: its identity, its metadata service's notices, and how it
// leaves its fleet. Outside of EC2 it has only a name. With `notify:` it notifies for all its
// experiments, whose own agents would send thousands of messages.
#pragma once

#include <chrono>

#include "agent/aws/aws_calls.hpp"
#include "agent/config/job.hpp"
#include "agent/service/act/cloud.hpp"
#include "agent/service/observe/notifier.hpp"
#include "agent/service/sense/notices.hpp"

namespace spotter {

class Machine {
 public:
  using OnNotice = std::function<void(decide::Happening)>;
  Machine(asio::io_context& context, const config::Job& job, act::Environment environment,
          OnNotice on_notice);

  // Asks the metadata service, `tries` times, a second apart. Sets AWS_REGION if it was not set.
  asio::awaitable<void> learn(std::uint32_t tries);
  std::string name() const;  // the instance's id, else the host's name
  asio::awaitable<void> watch();

  // The experiments whose volume is in this zone, in a sweep with a volume for each.
  asio::awaitable<std::vector<bool>> experiments_here(std::size_t count);

  // Whether nothing of the job is held here. If so, and an Auto Scaling group waits for us before
  // it terminates this machine, tells it to go on.
  void set_idle(bool idle);
  // Ends the fleet, and with it this machine.
  asio::awaitable<Result<void>> cancel_fleet();
  // Ends this machine. `needed`: without a replacement, as so many are enough; returns false, and
  // does nothing, if the fleet maintains its capacity and has no more than that. Logs a refusal by
  // EC2, and does nothing then.
  asio::awaitable<bool> leave_fleet(std::optional<std::uint32_t> needed);

 private:
  asio::awaitable<Result<decide::FleetRead>> read_fleet();
  asio::awaitable<Result<decide::FleetRead>> await_fleet();
  asio::awaitable<void> complete_lifecycle();
  void notice(const decide::NoticeSeen& seen);
  void complete_if_idle();
  asio::awaitable<void> notify(std::string_view event, std::string words);

  asio::io_context& context_;
  const config::Job& job_;
  act::Environment environment_;
  io::HttpClient http_;
  sense::ImdsClient imds_;
  OnNotice sensed_;
  sense::Notices notices_;
  std::unique_ptr<sense::Reservation> reservation_;
  std::optional<decide::IdentityRead> identity_;
  std::optional<std::chrono::steady_clock::time_point> fleet_asked_at_;  // the first answer's
  bool idle_ = false;
  bool held_ = false;          // by the group's lifecycle hook
  bool completed_ = false;     // the hook's action
  bool end_notified_ = false;  // that the whole job has ended
  std::unique_ptr<act::AwsClient> aws_;
  std::unique_ptr<act::Cloud> cloud_;
  std::unique_ptr<Notifier> notifier_;
};

// The name under which this instance is a member of its job's gang.

// The instance's id: no other machine ever has it, and the agent after this one finds the same.
// Fails where the metadata service does not say within seconds: under another name it would
// be another member, beside the trainer that this one has left running.
Result<std::string> member_here();

}  // namespace spotter
