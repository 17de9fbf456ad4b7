// What was reported of the gang, as long as it says anything of now.
#pragma once

#include <optional>

#include "agent/decide/state.hpp"
#include "agent/wire/gang_report.hpp"

namespace spotter {

class GangSeen {
 public:
  void take(const wire::GangReport& report, Time now) {
    if (!report_ || report_->rounds != report.rounds) round_at_ = now;
    report_ = report;
    at_ = now;
  }
  // Null: no trainer runs, or nothing was reported lately.
  const wire::GangReport* current(const decide::Facts& facts, Time now) const {
    const bool says = facts.trainer.running && now - at_ < wire::longest_gang_silence;
    return says && report_ ? &*report_ : nullptr;
  }
  // When its last round was first reported.
  Time round_at() const { return round_at_; }

 private:
  std::optional<wire::GangReport> report_;
  Time at_{}, round_at_{};
};

}  // namespace spotter
