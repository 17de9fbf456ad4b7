// What became of a job, as a report or a page shows it, made of what its machines have left: their
// histories (wire/history.hpp), the learning curve (wire/curve.hpp), what the agent's status says.
// No I/O, no clock. Times are seconds since 1970, durations seconds; nothing: not known.
//
// Goodput, as the literature on training has it, is the part of the elapsed time in which steps
// were trained that count: productive time over total time, from the first machine's boot to the
// job's end, waiting for capacity included (https://docs.cloud.google.com/tpu/docs/goodput). Not
// productive is what was repeated later, and what the trainer stood still for checkpoints. Of a
// sweep the elapsed time is that of its machines together, since they work side by side.
//
// Savings are SageMaker's, (1 - BillableTimeInSeconds / TrainingTimeInSeconds) x 100
// (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html): a
// machine's training time is its own from boot to end, its billable time that which its spot
// dollars buy on demand. With one type of machine this is (1 - spot dollars / on-demand dollars) x
// 100 for the same hours.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "agent/aws/formats/ec2_values.hpp"
#include "agent/sweep/summary.hpp"
#include "agent/wire/curve.hpp"
#include "agent/wire/history.hpp"

namespace spotter::report {

using Number = std::optional<double>;
using Count = std::optional<std::int64_t>;
using Experiment = std::optional<std::size_t>;

// A machine from a boot to its end, as far as one job, or one experiment of it, was concerned.
struct Instance {
  struct Phase {
    std::string phase;  // of wire/history.hpp
    double from = 0;
    Number to;
  };
  enum class End : std::uint8_t { Running, Interrupted, Finished, Failed, Lost, Left };
  std::string id, type, zone;
  Experiment experiment;
  double began = 0;  // the agent; the machine is a little older
  Number booted, ended, price;
  End end = End::Running;
  std::vector<Phase> phases;
};

struct Interruption {
  std::string instance, zone;
  std::string kind;  // terminate, stop, hibernate, group, lost
  Experiment experiment;
  double time = 0;  // of the notice; of one that was lost, its last word
  Number notice, deadline;
  Number durable;  // the last checkpoint before the end
  Number seconds_to_durable, window_seconds, window_trained;
  Count step, checkpoint_step;         // reached; durable
  Count resumed_step, repeated_steps;  // of whoever went on
  Number resumed, down_seconds;        // from the last step to the next one
  std::string why;                     // a sentence: what was repeated, and why
};

// A trainer that went on from an earlier step than had been reached, for whatever reason.
struct Repeat {
  double time = 0;
  std::string instance;
  std::int64_t step = 0, repeated_steps = 0;
  std::string why;
};

struct Checkpoint {
  double time = 0;
  Count step;
  Number seconds, bytes;
};

struct VolumeChange {
  double time = 0;
  std::string change, volume, snapshot, zone;
};

struct JournalLine {
  double time = 0;
  std::string instance, level, event, words;
};

struct Progress {
  Count step, steps_total, epoch, epochs_total;
  Number loss, accuracy, steps_per_second;
};

struct Cost {
  double instance_seconds = 0;
  Number billable_seconds, spot_dollars, on_demand_dollars, savings_percent;
  std::string formula;             // with the numbers in it; empty without savings
  std::vector<std::string> notes;  // where prices are from, and why one is missing
};

struct Goodput {
  Number part;  // 0 to 1
  double trained_seconds = 0, elapsed_seconds = 0;
  std::int64_t repeated_steps = 0;
  double repeated_seconds = 0, stall_seconds = 0;
};

struct Sweep {
  std::vector<std::string> parameters;  // those that differ
  std::vector<sweep::Summary> experiments;
};

struct Model {
  std::string job;
  Experiment experiment;
  double now = 0, from = 0;
  Number to;  // nothing: still going on
  std::string state = "unknown", says;
  Progress progress;
  std::vector<Instance> instances;
  std::vector<Interruption> interruptions;
  std::vector<Interruption> notices;  // of machines that still run: what is about to happen
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

// --- what it is made of

// Of one job, or of one experiment of a sweep.
struct Source {
  Experiment experiment;
  wire::ReadHistory history;  // of all its machines, in the order in which they began
  wire::Curve curve;
  // How far each machine got, by its own curve. The account, of which `repeated` is, is up to a
  // minute old when a machine is lost.
  std::map<std::string, std::int64_t> reached;
};

// A price list: what each type costs an hour on demand, and how spot prices went. What is empty is
// said why.
struct Prices {
  std::vector<wire::SpotPrice> spot;
  std::map<std::string, double> on_demand;
  Number on_demand_of_all;  // said by the user
  std::vector<std::string> notes;
};

struct Told {
  std::string job;
  Experiment experiment;
  double now = 0;
  std::vector<Source> sources;
  std::string status;  // status.json; empty: none
  std::string log;     // agent.log; empty: none
  bool is_sweep = false;
  std::vector<sweep::Summary> experiments;
  std::vector<std::string> parameters;  // of the experiments: those that differ
  Prices prices;
};

// Always succeeds: what is not told is not in it.
Model build(const Told& told);
// The model's alone, in no order.
std::vector<Instance> instances_of(const Told& told);

// A machine that has told nothing for so long is believed to be gone by whoever counts dollars:
// the account is told once an hour.
inline constexpr double silence = 2 * 3600;
inline constexpr std::size_t most_journal_lines = 400;
inline constexpr std::size_t most_points = 50'000;

const char* to_text(Instance::End end);

// The document that /page eats: version 1.
nlohmann::ordered_json to_json(const Model& model);
std::string to_text(const Model& model);  // the same, in one line, always UTF-8

// For a terminal and for GitHub.
std::string to_markdown(const Model& model);

}  // namespace spotter::report
