// `spotter sweep results`.
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "agent/aws/formats/s3.hpp"
#include "agent/base/exit_status.hpp"
#include "agent/commands/results_gather.hpp"
#include "agent/commands/sweep.hpp"
#include "agent/io/complain.hpp"
#include "agent/sweep/sweep_sets.hpp"

namespace spotter::command {
namespace {

// A terminal gets so many; a pipe or a file gets all.
constexpr std::size_t most_rows = 100;

struct ResultsOptions {
  std::string job = "job.yaml";
  std::string from, sort, csv, json;
};

struct Sweep {
  std::string place;
  std::optional<std::vector<sweep::Set>> sets;
  std::optional<sweep::Objective> objective;
  std::optional<config::Job> job = {};  // where its own storage is meant
};

// With --from no job is needed: the parameters are then taken from the results.
Result<Sweep, int> read_sweep(const ResultsOptions& options, bool job_is_named) {
  std::error_code error;
  const bool is_there = std::filesystem::exists(options.job, error);
  if (!options.from.empty() && !job_is_named && !is_there) return Sweep{options.from, {}, {}, {}};
  const auto job = config::load_job(options.job, config::Environment::of_process());
  if (!job) {
    std::fputs(config::describe(job.error(), options.job).c_str(), stderr);
    return tl::unexpected(wrong_input);
  }
  if (!job->sweep)
    return tl::unexpected(io::complain("sweep", options.job + " has no `sweep:`", wrong_input));
  auto sets = sets_of(*job);
  if (!sets) return tl::unexpected(io::complain("sweep", sets.error().message, 1));
  Sweep sweep{options.from, std::move(*sets), job->sweep->objective, {}};
  if (!sweep.place.empty()) return sweep;
  auto place = place_of_results(*job);
  if (!place) return tl::unexpected(io::complain("sweep", place.error().message, 1));
  sweep.place = std::move(*place);
  sweep.job = *job;
  return sweep;
}

Result<Gathered> gather(const Sweep& sweep) {
  if (!sweep.place.starts_with("s3://")) return results_in_folder(sweep.place, sweep.sets);
  const auto prefix = wire::parse_s3_url(sweep.place);
  if (!prefix) return tl::unexpected(prefix.error());
  if (sweep.job && !sweep.job->claims) return results_in_homes(*sweep.job, sweep.sets);
  return results_in_bucket(*prefix, sweep.sets, sweep.job);
}

bool write(const std::string& path, const std::string& text) {
  const bool to_stdout = path == "-";
  std::FILE* file = to_stdout ? stdout : std::fopen(path.c_str(), "we");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr && (to_stdout ? std::fflush(file) : std::fclose(file)) != 0) written = false;
  if (!written) io::complain("sweep", "cannot write " + path, 1);
  return written;
}

Screen screen() {
  if (::isatty(STDOUT_FILENO) == 0) return {};
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return {known ? size.ws_col : std::size_t{80}, most_rows};
}

int show(const ResultsOptions& options, bool job_is_named) {
  if (options.csv == "-" && options.json == "-")
    return io::complain("sweep", "--csv and --json cannot both go to the standard output",
                        wrong_input);
  const auto sweep = read_sweep(options, job_is_named);
  if (!sweep) return sweep.error();
  auto gathered = gather(*sweep);
  if (!gathered) return io::complain("sweep", gathered.error().message, 1);
  for (const std::string& warning : gathered->warnings) io::complain("sweep", warning, 0);
  Summaries& all = gathered->all;
  if (all.empty()) return io::complain("sweep", "there is nothing to show", 1);
  const auto order = sort_order(all, options.sort, sweep->objective);
  if (!order) return io::complain("sweep", order.error().message, wrong_input);
  sort(all, *order);
  const bool no_table = options.csv == "-" || options.json == "-";
  if (no_table && !order->note.empty()) io::complain("sweep", order->note, 0);
  bool good = no_table || write("-", to_table(all, *order, screen()));
  if (!options.csv.empty()) good = write(options.csv, to_csv(all)) && good;
  if (!options.json.empty()) good = write(options.json, to_json(all)) && good;
  return good ? 0 : 1;
}

}  // namespace

void add_results(CLI::App& sweep, int& status) {
  auto options = std::make_shared<ResultsOptions>();
  auto* command =
      sweep.add_subcommand("results", "A table of the experiments, the best first; CSV, JSON");
  auto* job = command->add_option("job", options->job, "The job's description");
  job->capture_default_str();
  command->add_option("--from", options->from,
                      "A folder that has one of each experiment, or the s3:// place of the claims; "
                      "else the job's own storage");
  command->add_option(
      "--sort", options->sort,
      "METRIC, METRIC:min or METRIC:max: val_accuracy, loss, another metric, epoch, "
      "step, seconds, attempts, index, or a parameter; else sweep.objective of the "
      "job, or val_accuracy, or val_loss");
  command->add_option("--csv", options->csv, "Writes a table for programs there; -: here");
  command->add_option("--json", options->json, "Writes all, with the curves, there; -: here");
  command->callback([options, job, &status] { status = show(*options, job->count() > 0); });
}

}  // namespace spotter::command
