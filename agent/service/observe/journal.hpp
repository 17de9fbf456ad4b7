// What the agent says in the journal as things happen, and the fields beside it: SPOTTER_STAGE,
// SPOTTER_STEP, INSTANCE_ID, VOLUME_ID, SPOTTER_ZONE.
#pragma once

#include <filesystem>
#include <string>

#include "agent/decide/event.hpp"
#include "agent/decide/policy.hpp"
#include "agent/decide/state.hpp"

namespace spotter {

class Journal {
 public:
  // The end of what cloud-init and the user data printed, in `printed`, becomes the first of the
  // lines that are kept with the job (io/log.hpp): once a boot, as `run_directory` is of one.
  static void remember_boot(const std::filesystem::path& printed,
                            const std::filesystem::path& run_directory);
  // After each step of the core. `moved`: the stage is another one.
  void tell(const decide::Event& event, const decide::State& state, const decide::Policy& policy,
            bool moved);
  // The last line about the stage, which is the service's STATUS, too.
  const std::string& said() const { return said_; }

 private:
  std::string said_;
};

}  // namespace spotter
