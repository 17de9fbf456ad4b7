// Local work: each piece is a child process `spotter host VERB`, so that a hang (a dead disk, a
// dead server) never stops the agent, and an abandoned piece can be killed.
#pragma once

#include <string>
#include <vector>

#include "agent/config/job.hpp"
#include "agent/decide/effect.hpp"
#include "agent/decide/event.hpp"
#include "agent/io/asio.hpp"
#include "agent/io/process.hpp"

namespace spotter::act {

class Local {
 public:
  // `program`: the spotter binary itself.
  Local(const config::Job& job, std::string program) : job_(job), program_(std::move(program)) {}

  using Answer = asio::awaitable<decide::Happening>;

  Answer find_device(decide::FindDevice effect, Duration limit);
  Answer inspect(Device device, Duration limit);
  Answer make_filesystem(Device device, Duration limit);
  Answer mount(decide::Mount effect, Duration limit);
  Answer unmount(Duration limit);
  Answer read_ledger(Duration limit);
  Answer write_ledger(decide::Ledger ledger, Duration limit);
  Answer sync(Duration limit);
  Answer verify(bool read_only, Duration limit);
  Answer fetch_code(std::string token, Duration limit);

  // The volume that is mounted at the job's mount point, empty: none.
  asio::awaitable<tl::expected<VolumeId, decide::EffectFailed>> mounted_volume(Duration limit);

 private:
  struct Work;
  asio::awaitable<Work> run(std::vector<std::string> arguments, Duration limit,
                            std::string token = {});

  void add_link(std::vector<std::string>& arguments) const;

  const config::Job& job_;
  std::string program_;
};

}  // namespace spotter::act
