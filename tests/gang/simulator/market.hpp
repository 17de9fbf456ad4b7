// A gang on replayed spot markets: what the real core makes of the machines that a trace has,
// beside torchrun that waits for all of them, and a bound that no policy can pass. bench/README.md
// has the table.
#pragma once

#include <optional>

#include "tests/simulate/market.hpp"

namespace spotter::gang {

// Beside simulate::MarketModel's boots, notices and writes. Times in seconds.
struct GangModel {
  simulate::MarketModel of_one;
  std::size_t size = 8, min = 4;
  // The whole gang's work in seconds: two days. The batch is constant, so that a step of eight
  // machines takes four of them twice as long (no time is taken for the network: assumed).
  double work = 2 * 24 * 3600;
  // All ranks stand still while each writes its part of the state, and rank 0 commits.
  double save() const {
    return of_one.checkpoint / static_cast<double>(size) / of_one.disk + longest_commit;
  }
  static constexpr double longest_commit = 1.5;
  // Seconds from one checkpoint to the next: the cheapest where work is lost about every two hours
  // (one interruption in ten, of eight machines) and a checkpoint takes four and a half seconds
  // (decide/pace.hpp).
  double every = 240;
};

// One machine of the gang: of `seat`, of which there are `size`.
struct Lease {
  std::size_t seat = 0;
  double begin = 0, ready = 0, end = 0;  // paid from `begin` to `end`; its agent starts at `ready`
  bool announced = true;                 // by a notice
};

// The same for every policy, for so many seconds. Each of the trace's nodes is at most one machine
// at a time.
std::vector<Lease> draw_leases(const simulate::Trace& trace, std::uint64_t seed,
                               const GangModel& model, double length);

struct GangOutcome {
  double hours = 0;
  double goodput = 0;  // share of the paid machine-seconds that became progress
};

GangOutcome outcome_of(const std::vector<Lease>& leases, double end, const GangModel& model);

// None: the market ends before the work.
std::optional<GangOutcome> play_bound(const std::vector<Lease>& leases, const GangModel& model);
std::optional<GangOutcome> play_waiting(const std::vector<Lease>& leases, const GangModel& model);
// replay.cpp. Throws std::runtime_error with words where a promise of the simulator is broken.
std::optional<GangOutcome> play_gang(const std::vector<Lease>& leases, const GangModel& model,
                                     std::uint64_t seed);

// Prints the table. The exit status: 0 when the gang is between the two others.
int replay_gangs(const std::vector<std::string>& traces, std::size_t seeds);

}  // namespace spotter::gang
