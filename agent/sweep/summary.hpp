// The outcome of one experiment, read from its folder, the JSON document that represents it
// elsewhere (claim.hpp), and the sets of a job with a sweep.
#pragma once

#include <filesystem>
#include <functional>

#include "agent/config/experiment.hpp"
#include "agent/wire/curve.hpp"

namespace spotter::sweep {

struct Summary {
  enum class State : std::uint8_t {
    Waiting,  // it has no files yet
    Running,  // its account was written minutes ago
    Stopped,  // interrupted, to be continued
    Failed,   // given up
    Done
  };
  std::size_t index = 0;
  Set parameters;
  State state = State::Waiting;
  std::uint64_t attempt = 0;   // the token of the claim with this result; 0: there was no claim
  std::uint64_t attempts = 0;  // how often a trainer was started
  double seconds = 0;          // instance time of all attempts
  std::string model;           // the result's path; empty: none
  std::string
      stopped_early;  // of Done: why the sweep's rule ended it (asha.hpp); empty: it did not
  wire::Curve curve;  // of all attempts that count, `most_points` at most
  static constexpr std::size_t most_points = 500;
};

const char* to_text(Summary::State state);
// The same for people: "stopped early" for what is done for that reason.
const char* shown_state(const Summary& summary);

// One line. Also has `step`, `epoch`, `loss`, `accuracy` and `metrics` of curve.last(), for people.
std::string to_json(const Summary& summary);
// Fails for what is no summary; ignores unknown fields, which come from a newer Spotter.
Result<Summary> parse_summary(std::string_view json);

// Ranks the experiments of a sweep: by the job's objective, if any reported it. Pure.

struct Ranking {
  std::string metric = "index";  // "index": no experiment has reported anything to compare
  bool largest_first = false;
  std::string note;  // a sentence without its full stop: why it is not by what was asked for
};

// By the objective; without one by the validation's accuracy, else its loss. If no experiment has
// reported these, by the training's accuracy, else its loss.
Ranking ranking_of(const std::vector<Summary>& all, const std::optional<Objective>& objective);

// The newest value that it has reported.
std::optional<double> last_value(const Summary& summary, const std::string& metric);

// The places in `all`, the best first: finished experiments, then those that were stopped early
// (what more training would have made of them is not known), unfinished, failed and waiting ones;
// those without a value after those with one.
using Value = std::function<std::optional<double>(const Summary&)>;
std::vector<std::size_t> best_first(const std::vector<Summary>& all, const Value& value,
                                    bool largest_first);

// The outcome of an experiment, by its folder on the storage.

// `folder`: `<job>/<index>` on the storage, the experiment's home itself or one with a home
// `attempt-<token>` for each claim. Touches the storage, which may hang. Whoever publishes says its
// own token as `winner`; later ones then do not count. Without it the winner is where `DONE` leads,
// or the newest. Fails when the folder is there and cannot be read.
Result<Summary> summary_of(const std::filesystem::path& folder, std::size_t index, Set parameters,
                           std::optional<std::uint64_t> winner = {});

// The most bytes of the files there.
inline constexpr std::size_t ledger_limit = 64U << 10;
inline constexpr std::size_t metrics_limit = 8U << 20;  // 4096 points, each with all

// The curve in that file. Empty where there is none, or it cannot be read.
wire::Curve read_metrics(const std::filesystem::path& path);

}  // namespace spotter::sweep

namespace spotter::command {

// The parameter sets of a job with a sweep: fetches them, from S3 if they are there, and checks
// them against the trainer's command. Problem::passing: S3 does not answer, or there are no
// credentials yet (a container's or an instance's come moments after its start).
Result<std::vector<sweep::Set>, config::Problem> sets_of(const config::Job& job);

}  // namespace spotter::command
