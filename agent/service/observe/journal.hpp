// The agent's journal lines about events, with the fields SPOTTER_STAGE, SPOTTER_STEP, INSTANCE_ID,
// VOLUME_ID, SPOTTER_ZONE.
#pragma once

#include <filesystem>
#include <string>

#include "agent/decide/event.hpp"
#include "agent/decide/policy.hpp"
#include "agent/decide/state.hpp"

namespace spotter {

class Journal {
 public:
  // Makes the end of `printed` (the output of cloud-init and the user data) the first log line kept
  // with the job (io/log.hpp). Once a boot: it leaves a mark in `run_directory`.
  static void remember_boot(const std::filesystem::path& printed,
                            const std::filesystem::path& run_directory);
  // To be called after each step of the core. `moved`: the stage has changed.
  void on_event(const decide::Event& event, const decide::State& state,
                const decide::Policy& policy, bool moved);
  // The last line about the stage, which is also the service's STATUS.
  const std::string& said() const { return said_; }

 private:
  void record_surrender(decide::Surrender why);

  std::string said_;
  decide::Surrender surrender_ = decide::Surrender::None;
};

}  // namespace spotter
