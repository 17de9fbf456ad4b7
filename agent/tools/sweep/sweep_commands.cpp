// `spotter sweep submit|status|cancel|retry|image`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "agent/base/exit_status.hpp"
#include "agent/io/complain.hpp"
#include "agent/tools/jobs/places.hpp"
#include "agent/tools/sweep/sweep_batch.hpp"
#include "agent/tools/sweep/sweep_image.hpp"

namespace spotter::command {
namespace {

using OrderedJson = nlohmann::ordered_json;
constexpr std::size_t most_failures_shown = 20;
const std::vector<std::string> in_order = {"SUBMITTED", "PENDING",   "RUNNABLE", "STARTING",
                                           "RUNNING",   "SUCCEEDED", "FAILED"};

struct SweepCommandOptions {
  std::string job = "job.yaml";
  bool dry_run = false;
  bool again = false;
  bool failed = false;
  bool json = false;
  std::string reason = "cancelled with `spotter sweep cancel`";
};

void print(const std::string& line) { std::printf("%s\n", line.c_str()); }

bool is_over(const std::string& status) { return status == "SUCCEEDED" || status == "FAILED"; }

// The first steps of every command.
struct Opened {
  BatchSweep sweep;
  std::unique_ptr<AwsCalls> calls;
  std::vector<Submission> all;
};
Result<Opened, int> open(const SweepCommandOptions& options) {
  auto sweep = batch_sweep(options.job);
  if (!sweep) return tl::unexpected(io::complain("sweep", sweep.error().message, wrong_input));
  auto calls = calls_in(sweep->region);
  if (!calls) return tl::unexpected(io::complain("sweep", calls.error().message));
  auto all = submissions(**calls, *sweep);
  if (!all) return tl::unexpected(io::complain("sweep", all.error().message));
  return Opened{std::move(*sweep), std::move(*calls), std::move(*all)};
}

int print_submission(const SweepCommandOptions& options) {
  const auto sweep = batch_sweep(options.job);
  if (!sweep) return io::complain("sweep", sweep.error().message, wrong_input);
  const auto& [environment, queue, definition] = sweep->batch;
  print("# Each waits until the one before is VALID. What is there already is updated instead.");
  for (const auto& call :
       {wire::create(environment), wire::create(queue), wire::register_definition(definition),
        wire::submit(submission_of(*sweep, sweep::all_indices(sweep->sets), definition.name))})
    print(wire::command_of(call));
  return 0;
}

int submit(const SweepCommandOptions& options) {
  if (options.dry_run) return print_submission(options);
  auto opened = open(options);
  if (!opened) return opened.error();
  auto& [sweep, calls, all] = *opened;
  if (!all.empty() && !options.again) {
    const wire::BatchJob& last = all.back().job;
    io::complain("sweep", sweep.name + " is submitted already, and " + last.status +
                              (last.status == "FAILED"
                                   ? ": `spotter sweep retry --failed` tries the failed sets"
                                   : ": `spotter sweep status` tells more") +
                              "; --again submits all sets once more");
    print(last.id);
    return 0;
  }
  const auto definition = prepare(*calls, sweep);
  if (!definition) return io::complain("sweep", definition.error().message);
  const auto id =
      submit_list(*calls, sweep, sweep::all_indices(sweep.sets), *definition, all.size());
  if (!id) return io::complain("sweep", id.error().message);
  io::complain("sweep", sweep.name + ": " + std::to_string(sweep.sets) +
                            (sweep.sets == 1 ? " set is submitted" : " sets are submitted"));
  print(*id);
  return 0;
}

OrderedJson states_json(const BatchSweep& sweep, const std::vector<SetState>& states,
                        const std::map<std::string, std::size_t>& counts) {
  OrderedJson document = {{"name", sweep.name}, {"sets", sweep.sets}, {"counts", counts}};
  document["indices"] = OrderedJson::array();
  for (std::size_t index = 0; index < states.size(); ++index) {
    const SetState& it = states[index];
    OrderedJson row = {
        {"index", index}, {"status", it.status}, {"job", it.job}, {"reason", it.reason}};
    row["exit_code"] = it.exit_code ? OrderedJson(*it.exit_code) : OrderedJson();
    document["indices"].push_back(std::move(row));
  }
  return document;
}

void print_failures(const std::vector<SetState>& states) {
  std::size_t shown = 0;
  for (std::size_t index = 0; index < states.size(); ++index) {
    const SetState& it = states[index];
    if (it.status != "FAILED") continue;
    if (++shown > most_failures_shown) return print("  ... (--json has all)");
    const std::string code = it.exit_code ? "exit " + std::to_string(*it.exit_code) + ", " : "";
    print("  failed: " + std::to_string(index) + " (" + code + it.reason + ")");
  }
}

// Exit status: 0 all have succeeded or still run, 1 some have failed.
int show(const SweepCommandOptions& options) {
  auto opened = open(options);
  if (!opened) return opened.error();
  const auto& [sweep, calls, all] = *opened;
  if (all.empty()) return io::complain("sweep", sweep.name + " was not submitted (or a week ago)");
  const auto found = states(*calls, sweep, all);
  if (!found) return io::complain("sweep", found.error().message);
  std::map<std::string, std::size_t> counts;
  for (const SetState& it : *found) ++counts[it.status];
  if (options.json) {
    print(states_json(sweep, *found, counts)
              .dump(2, ' ', false, OrderedJson::error_handler_t::replace));
  } else {
    std::string line = sweep.name + ": " + std::to_string(sweep.sets) + " sets";
    for (const std::string& status : in_order)
      if (counts.contains(status)) line += ", " + std::to_string(counts[status]) + " " + status;
    print(line);
    print_failures(*found);
  }
  return counts.contains("FAILED") ? 1 : 0;
}

int cancel(const SweepCommandOptions& options) {
  auto opened = open(options);
  if (!opened) return opened.error();
  const auto& [sweep, calls, all] = *opened;
  std::size_t cancelled = 0;
  for (const Submission& it : all) {
    if (is_over(it.job.status)) continue;
    const auto done = calls->perform(wire::terminate(it.job.id, options.reason));
    if (!done) return io::complain("sweep", done.error().message);
    print(it.job.id);
    ++cancelled;
  }
  if (cancelled == 0) io::complain("sweep", sweep.name + ": nothing of it is under way");
  return 0;
}

int retry(const SweepCommandOptions& options) {
  if (!options.failed)
    return io::complain("sweep", "which sets? --failed: those that have failed", wrong_input);
  auto opened = open(options);
  if (!opened) return opened.error();
  auto& [sweep, calls, all] = *opened;
  if (all.empty()) return io::complain("sweep", sweep.name + " was not submitted (or a week ago)");
  const auto found = states(*calls, sweep, all);
  if (!found) return io::complain("sweep", found.error().message);
  sweep::IndexList list{{}, sweep.sets};
  for (std::size_t index = 0; index < found->size(); ++index)
    if ((*found)[index].status == "FAILED") list.indices.push_back(index);
  if (list.indices.empty()) {
    io::complain("sweep", sweep.name + ": no set has failed");
    return 0;
  }
  if (options.dry_run) {
    const auto call = wire::submit(submission_of(sweep, list, sweep.batch.definition.name));
    print(wire::command_of(call));
    return 0;
  }
  const auto definition = prepare(*calls, sweep);
  if (!definition) return io::complain("sweep", definition.error().message);
  const auto id = submit_list(*calls, sweep, list, *definition, all.size());
  if (!id) return io::complain("sweep", id.error().message);
  io::complain("sweep", sweep.name + ": tried again are the sets " + sweep::to_text(list));
  print(*id);
  return 0;
}

int print_image(const SweepCommandOptions& options) {
  const auto job = batch_job(options.job);
  if (!job) return io::complain("sweep", job.error().message, wrong_input);
  const auto commands = image_commands(job->sweep->batch->definition.image);
  if (!commands) return io::complain("sweep", commands.error().message, wrong_input);
  std::fputs(commands->c_str(), stdout);
  return 0;
}

}  // namespace

void add_batch(CLI::App& sweep, int& status) {
  auto options = std::make_shared<SweepCommandOptions>();
  const auto add = [&](const char* name, const char* what, int (*run)(const SweepCommandOptions&)) {
    auto* command = sweep.add_subcommand(name, what);
    command->add_option("job", options->job, "The job's description")->capture_default_str();
    command->callback([options, &status, run] { status = run(*options); });
    return command;
  };
  const char* const printed = "Prints the requests, as commands of `aws`, and does nothing";
  auto* submitting = add("submit",
                         "Submits the sets as an array job to AWS Batch, once; makes or updates "
                         "the compute environment, queue and job definition of sweep.batch",
                         submit);
  submitting->add_flag("--dry-run", options->dry_run, printed);
  submitting->add_flag("--again", options->again,
                       "Submits even if these sets were submitted before");
  add("status", "The state of the sets; exit status 1 when some have failed", show)
      ->add_flag("--json", options->json, "With each set's job, reason and exit code");
  add("cancel", "Stops its jobs that wait or run", cancel)
      ->add_option("--reason", options->reason, "What AWS Batch keeps with the jobs");
  auto* retrying = add("retry", "Submits sets once more", retry);
  retrying->add_flag("--failed", options->failed, "Those that have failed for good");
  retrying->add_flag("--dry-run", options->dry_run, printed);
  add("image", "Prints the commands that make the image of sweep.batch and put it into ECR",
      print_image);
}

}  // namespace spotter::command
