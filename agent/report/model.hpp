// The result of a job, as a report or a page shows it, built from what its machines recorded:
// histories (wire/history.hpp), learning curve (wire/curve.hpp), the agent's status. No I/O, no
// clock. Times are seconds since 1970, durations seconds; none: not known.
//
// Goodput, as in the literature on training, is the part of the elapsed time in which steps were
// trained that count: productive time over total time, from the first machine's boot to the job's
// end, including waits for capacity (https://docs.cloud.google.com/tpu/docs/goodput). Steps that
// were repeated later are not productive, nor are pauses for checkpoints. A sweep's elapsed time is
// the sum over its machines, since they work side by side.
//
// Savings are SageMaker's, (1 - BillableTimeInSeconds / TrainingTimeInSeconds) x 100
// (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html): a
// machine's training time is its time from boot to end, its billable time what its spot dollars
// would buy on demand. With one type of machine this is (1 - spot dollars / on-demand dollars) x
// 100 for the same hours.
#pragma once

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/sweep/summary.hpp"
#include "agent/wire/curve.hpp"
#include "agent/wire/history.hpp"

namespace spotter::report {

using Number = std::optional<double>;
using Count = std::optional<std::int64_t>;
using Experiment = std::optional<std::size_t>;

// `keys` of a struct: its fields' keys in to_json(), in their order; behind one that is not rounded
// stands `=`.

// A machine from a boot to its end, as far as it worked for one job, or one experiment of it.
struct Instance {
  static constexpr std::string_view keys =
      "id type zone experiment began booted ended price= end phases";
  struct Phase {
    static constexpr std::string_view keys = "phase from to";
    std::string phase;  // of wire/history.hpp
    double from = 0;
    Number to;
  };
  enum class End : std::uint8_t { Running, Interrupted, Finished, Failed, Lost, Left };
  std::string id, type, zone;
  Experiment experiment;
  double began = 0;  // the agent; the machine began a little earlier
  Number booted, ended, price;
  End end = End::Running;
  std::vector<Phase> phases;
};

struct Interruption {
  static constexpr std::string_view keys =
      "instance zone kind experiment time notice deadline durable seconds_to_durable "
      "window_seconds window_trained step checkpoint_step resumed_step repeated_steps resumed "
      "down_seconds why";
  std::string instance, zone;
  std::string kind;  // terminate, stop, hibernate, group, lost
  Experiment experiment;
  double time = 0;  // of the notice; of a lost machine, its last entry
  Number notice, deadline;
  Number durable;  // the last checkpoint before the end
  Number seconds_to_durable, window_seconds, window_trained;
  Count step, checkpoint_step;         // reached; durable
  Count resumed_step, repeated_steps;  // of the machine that continued
  Number resumed, down_seconds;        // from the last step to the next one
  std::string why;                     // a sentence: what was repeated, and why
};

// A trainer that continued from an earlier step than was reached, for whatever reason.
struct Repeat {
  static constexpr std::string_view keys = "time instance step repeated_steps why";
  double time = 0;
  std::string instance;
  std::int64_t step = 0, repeated_steps = 0;
  std::string why;
};

struct Checkpoint {
  static constexpr std::string_view keys = "time step seconds bytes";
  double time = 0;
  Count step;
  Number seconds, bytes;
};

struct VolumeChange {
  static constexpr std::string_view keys = "time change volume snapshot zone";
  double time = 0;
  std::string change, volume, snapshot, zone;
};

struct JournalLine {
  static constexpr std::string_view keys = "time instance level event words";
  double time = 0;
  std::string instance, level, event, words;
};

struct Progress {
  static constexpr std::string_view keys =
      "step steps_total epoch epochs_total loss= accuracy= steps_per_second= metrics "
      "checkpoint_counts";
  Count step, steps_total, epoch, epochs_total;
  Number loss, accuracy, steps_per_second;
  MetricValues metrics = {};
  std::string checkpoint_counts = {};  // "writes": a checkpoint's number is that, and no step
};

struct Cost {
  static constexpr std::string_view keys =
      "instance_seconds billable_seconds spot_dollars= on_demand_dollars= savings_percent formula "
      "notes";
  double instance_seconds = 0;
  Number billable_seconds, spot_dollars, on_demand_dollars, savings_percent;
  std::string formula;             // with its numbers; empty without savings
  std::vector<std::string> notes;  // sources of prices, and why one is missing
};

struct Goodput {
  static constexpr std::string_view keys =
      "part= trained_seconds elapsed_seconds repeated_steps repeated_seconds stall_seconds";
  Number part;  // 0 to 1
  double trained_seconds = 0, elapsed_seconds = 0;
  std::int64_t repeated_steps = 0;
  double repeated_seconds = 0, stall_seconds = 0;
};

struct Sweep {
  std::vector<std::string> parameters;  // those that differ
  std::vector<sweep::Summary> experiments;
  sweep::Ranking ranking;
};

struct Model {
  std::string job;
  Experiment experiment;
  double now = 0, from = 0;
  Number to;  // none: still running
  std::string state = "unknown", says;
  Progress progress;
  std::vector<Instance> instances;
  std::vector<Interruption> interruptions;
  std::vector<Interruption> notices;  // of machines that still run
  std::vector<Repeat> repeats;
  std::vector<Checkpoint> checkpoints;
  std::vector<VolumeChange> volumes;
  wire::Curve curve;
  Cost cost;
  Goodput goodput;
  std::vector<JournalLine> journal;
  std::optional<Sweep> sweep;
  std::size_t foreign = 0;  // lines of the histories that could not be read
};

// --- its input

// The input about one job, or about one experiment of a sweep.
struct Source {
  Experiment experiment;
  wire::ReadHistory history;  // of all its machines, in the order in which they began
  wire::Curve curve;
  // The last step of each machine, by its own curve. The ledger, from which `repeated` comes, is up
  // to a minute old when a machine is lost.
  std::map<std::string, std::int64_t> reached;
};

// Prices: each type's on-demand price an hour, and the spot prices over time. Notes say why a part
// is empty.
struct Prices {
  std::vector<wire::SpotPrice> spot;
  std::map<std::string, double> on_demand;
  Number on_demand_of_all;  // given by the user
  std::vector<std::string> notes;
};

struct Input {
  std::string job;
  Experiment experiment;
  double now = 0;
  std::vector<Source> sources;
  std::string status;  // status.json; empty: none
  std::string log;     // agent.log; empty: none
  bool is_sweep = false;
  std::optional<sweep::Objective> objective;  // of the sweep
  std::vector<sweep::Summary> experiments;
  std::vector<std::string> parameters;  // of the experiments: those that differ
  Prices prices;
};

// Always succeeds: unknown input is left out.
Model build(const Input& input);
// Only the model's instances, in no order.
std::vector<Instance> instances_of(const Input& input);

// Whoever counts dollars takes a machine to be gone after so many seconds without an entry: it
// writes its account once an hour.
inline constexpr double silence = 2 * 3600;
inline constexpr std::size_t most_journal_lines = 400;
inline constexpr std::size_t most_points = 50'000;

const char* to_text(Instance::End end);

// The document that the page (/page) reads: version 1.
nlohmann::ordered_json to_json(const Model& model);
std::string to_text(const Model& model);  // the same, in one line, always UTF-8

}  // namespace spotter::report
