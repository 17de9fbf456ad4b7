// The machine that we are on: who it is, what its metadata service announces, and how it leaves its
// fleet. One of no cloud has a name, and nothing to leave. What `notify:` is for it tells (the
// experiments' own agents would do it by the thousand).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/aws/aws_access.hpp"
#include "agent/job/job.hpp"
#include "agent/service/act/cloud.hpp"
#include "agent/service/observe/notifier.hpp"
#include "agent/service/sense/notices.hpp"

namespace spotter {

class Machine {
 public:
  using Heard = std::function<void(decide::Happening)>;
  Machine(asio::io_context& context, const config::Job& job, act::Environment environment,
          Heard heard);

  // Asks the metadata service, `tries` times, a second apart. AWS_REGION is set where it was not.
  asio::awaitable<void> learn(std::uint32_t tries);
  std::string name() const;  // the instance's id, else the host's name
  asio::awaitable<void> watch() { return notices_.watch(); }

  // Of a sweep with a volume for each experiment: those whose volume is in this zone.
  asio::awaitable<std::vector<bool>> experiments_here(std::size_t count);

  // Whether anything of the job is held here. If not, and the Auto Scaling group that takes this
  // machine out waits for us, then it need not any more.
  void set_idle(bool idle);
  // Ends the fleet and this machine with it.
  asio::awaitable<Result<void>> cancel_fleet();
  // Ends this machine. `needed`: nobody is to come in its place, so many are enough; false where
  // the fleet keeps and has no more than that, and then nothing is done; nor, with a word in the
  // journal, where EC2 refuses.
  asio::awaitable<bool> leave_fleet(std::optional<std::uint32_t> needed);

 private:
  asio::awaitable<Result<decide::FleetRead>> read_fleet();
  asio::awaitable<void> complete_lifecycle();
  void notice(const decide::NoticeSeen& seen);
  void let_end();
  asio::awaitable<void> tell(std::string_view event, std::string words);

  asio::io_context& context_;
  const config::Job& job_;
  act::Environment environment_;
  io::HttpClient http_;
  sense::ImdsClient imds_;
  sense::Notices notices_;
  std::optional<decide::IdentityRead> identity_;
  bool idle_ = false;
  bool held_ = false;       // by the group's hook
  bool completed_ = false;  // that
  bool told_ = false;       // that all has ended
  std::unique_ptr<command::AwsAccess> aws_;
  std::unique_ptr<act::Cloud> cloud_;
  std::unique_ptr<Notifier> notifier_;
};

}  // namespace spotter
