// Real spot markets, replayed: traces of availability, the stated model beside them, and what four
// policies make of the same weeks. One job on a fleet of capacity 1: it runs on one of the trace's
// nodes, and when that one is removed it is interrupted.
#pragma once

#include <chrono>
#include <vector>

#include "tests/world/random.hpp"
#include "tests/world/volumes.hpp"

namespace spotter::simulate {

inline double seconds_of(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}
inline Duration of_seconds(double time) {
  return std::chrono::round<Duration>(std::chrono::duration<double>(time));
}

// Every number that the traces do not hold. Times in seconds, sizes in gigabytes.
struct MarketModel {
  // The job: a week of pure training; a state of 250 million parameters with Adam (12 bytes each)
  // on a volume with 40 GB of data; three checkpoints are kept.
  double work = 7 * 24 * 3600;
  double checkpoint = 3;
  double data = 40;
  // gp3's throughput without extra pay: 125 MB/s (AWS, "EBS volume types"), both ways.
  double disk = 0.125;
  // The state is copied to memory while training stands still, and written behind it (the design of
  // CheckFreq, FAST 2021), at 5 GB/s: bench/checkpoint measures 5.4 on two shared cores, 17 from a
  // GPU. AWS's script (Keras ModelCheckpoint) writes while it waits.
  double memory_copy = 5;
  // An epoch of ResNet-50 on ImageNet takes a V100 about an hour at 32 and half an hour at 16 bits.
  double epoch = 1800;
  double period = 600;  // of the policy `periodic`
  // From the end of an instance to its replacement's start, when there is capacity; from there to
  // the agent or script (a boot: not only EC2's, the image's services, too); from the command to
  // the first step (imports, the GPU's context, the input's first batches). Drawn evenly; the sum
  // is about two and a half minutes. Assumed: the traces hold launches, not boots.
  world::Range launch{Duration(30'000), Duration(90'000)};
  world::Range boot{Duration(40'000), Duration(70'000)};
  double trainer_start = 25;
  // A snapshot: 20 s, and the bytes changed since the one before it at 0.1 GB/s (assumed: AWS
  // promises nothing). A volume is made of it in seconds, and its blocks are cold (world/cold.hpp).
  double snapshot_least = 20;
  double snapshot_rate = 0.1;
  world::ColdSettings cold{};
  double make_volume = 2;  // 1 to 4 s each; the fake AWS draws its own
  double attach = 2.5;
  double mount = 1;
  // AWS calls notices "best effort": one in ten interruptions comes without. Half of them are
  // preceded by a rebalance recommendation 2 to 15 minutes before; and of 30 recommendations 21
  // lead to nothing (one public report).
  double unannounced = 0.1;
  double notice = 120;
  double hinted = 0.5;
  double hints_in_vain = 21.0 / 30;
  std::size_t zones = 3;  // a node is in any of them
  // p3.2xlarge: 0.92 dollars an hour and up to half more, by zone and seed; gp3 0.08 and snapshots
  // 0.05 dollars a GB-month (us-east-1).
  double dollars = 0.92;
  double volume_dollars = 0.08;
  double snapshot_dollars = 0.05;

  double stored() const { return data + 3 * checkpoint; }
  std::uint64_t gibibytes() const;  // of the volume
};

inline double mebibytes(double gigabytes) { return gigabytes * 1e9 / (1 << 20); }

struct Trace {
  struct Change {
    double at = 0;  // seconds since its start
    bool added = false;
    std::string node;
  };
  std::string name;
  double length = 0;
  std::vector<Change> changes;  // in time's order
};

// `.csv`: milliseconds,add|remove,node; else JSON of counts at a fixed gap,
// {"metadata":{"gap_seconds":N},"data":[count,...]}: when a count falls, nodes go by chance. Throws
// std::invalid_argument with words for a person.
Trace load_trace(const std::string& file);

// One instance of ours, and how it is interrupted.
struct Segment {
  double begin = 0;  // it runs, and costs, from here ...
  double end = 0;    // ... to here
  double boot = 0;   // seconds from `begin` until our agent or script starts
  std::size_t zone = 0;
  bool announced = true;  // by a notice, or not at all
  double hint = -1;       // time of its first rebalance recommendation; negative: none
};

// The same for every policy: the trace from a random moment on, repeated for `length` seconds.
struct Market {
  std::vector<Segment> segments;
  std::vector<double> prices;  // of each zone, dollars an hour
};
Market draw_market(const Trace& trace, std::uint64_t seed, const MarketModel& model, double length);

struct Outcome {
  double hours = 0;
  double cost = 0;            // dollars, and of them ...
  double rates = 0;           // ... for rates of initialization
  double goodput = 0;         // share of paid time that became progress
  double steps_repeated = 0;  // of one second each
};

enum class MarketPolicy : std::uint8_t { Aws, Periodic, Oracle };
// Computed, segment by segment. Throws std::runtime_error when the market ends before the job.
Outcome play_policy(MarketPolicy policy, const Market& market, const MarketModel& model);
// The real agent/decide against the fake AWS (market_replay.cpp). Throws likewise, also when a
// promise of the simulator's judge is broken.
Outcome play_spotter(const Market& market, const MarketModel& model, std::uint64_t seed,
                     bool fence);

struct MarketOptions {
  std::vector<std::string> traces;
  std::size_t seeds = 100;
  double dollars = MarketModel().dollars;
  std::string json;  // empty: none
  std::string svg;
};
// Prints the table. The exit status: 0 when no policy is better than the oracle or Spotter.
int replay_markets(const MarketOptions& options);

}  // namespace spotter::simulate
