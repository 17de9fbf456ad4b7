#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/pages.hpp"
#include "agent/aws/formats/s3.hpp"
#include "agent/aws/formats/sigv4.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/commands/commands.hpp"
#include "agent/commands/doctor.hpp"
#include "agent/commands/fleets.hpp"
#include "agent/commands/launched_job.hpp"
#include "agent/commands/machines.hpp"
#include "agent/commands/results.hpp"
#include "agent/commands/results_gather.hpp"
#include "agent/config/array_index.hpp"
#include "agent/io/log.hpp"
#include "agent/launch/requests.hpp"
#include "agent/sweep/summary.hpp"

namespace spotter::command {
namespace {

struct SweepOptions {
  std::string job = "job.yaml";
  std::optional<std::size_t> index;
  bool commands = false;
};

Result<int> expand(const SweepOptions& options) {
  const auto job = TRY(job_here(options.job));
  if (!job.sweep) return mistake(options.job + " has no `sweep:`");
  const auto sets = TRY(sets_of(job));
  if (options.index && *options.index >= sets.size())
    return mistake("there is no set " + std::to_string(*options.index) + ": the " +
                   std::to_string(sets.size()) + " sets count from 0");
  for (std::size_t index = 0; index < sets.size(); ++index) {
    if (options.index && index != *options.index) continue;
    const auto& set = sets[index];
    std::cout << (options.commands ? *sweep::fill(job.trainer.command, set)
                                   : "- " + sweep::to_json(set))
              << "\n";
  }
  return 0;
}

// `spotter sweep submit|status|cancel|retry`: a sweep on AWS Batch.

// The list of sets is part of the name: another list makes another sweep.
struct BatchSweep {
  config::Batch batch;
  std::size_t sets = 0;
  std::string name;    // of the jobs: <job>-<12 hexadecimal digits of the list's SHA-256>
  std::string region;  // empty: the one that AWS_REGION names
};

// One SubmitJob, of all sets or of those to retry.
struct Submission {
  wire::BatchJob job;
  sweep::IndexList list;  // the sets of its array's children, in this order
};

constexpr std::size_t described_at_once = 100;    // DescribeJobs
constexpr std::size_t payload_limit = 30 * 1024;  // of SubmitJob
// https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html
constexpr std::chrono::seconds settling{3};  // before a submitted job is listed

// Fetches all pages; `request` makes the request for a token.
template <class MakeRequest>
Result<std::vector<wire::BatchJob>, CallError> all_jobs(AwsCalls& calls, MakeRequest request) {
  return calls.all_pages<wire::BatchJob>("ListJobs", [&](const std::string& token) {
    return calls.ask(request(token), wire::decode_job_list);
  });
}

Result<sweep::IndexList> list_of(const wire::BatchJob& job, const BatchSweep& sweep) {
  const auto given = job.environment.find(sweep::indices_variable);
  auto list = sweep::all_indices(std::max<std::size_t>(1, job.size));
  if (given != job.environment.end())
    list = TRY(behind("job " + job.id, sweep::parse_index_list(given->second)));
  if (list.of == sweep.sets && list.indices.size() == std::max<std::size_t>(1, job.size))
    return list;
  return failure("job " + job.id + " was submitted with " + std::to_string(list.of) +
                 " sets, and the list has " + std::to_string(sweep.sets));
}

// The sweep of job.yaml, with its sets fetched and checked. Fails without sweep.batch.
Result<BatchSweep> batch_sweep(const std::string& job_file) {
  const auto job = TRY(config::read_job(job_file, config::Environment::of_process()));
  if (!job.sweep) return failure(job_file + " has no `sweep:`");
  if (!job.sweep->batch) return failure(job_file + " has no `sweep.batch:`");
  const auto sets = TRY(sets_of(job));
  if (sets.empty()) return failure(job_file + ": the sweep has no sets");
  std::string text;
  for (const auto& set : sets) text += sweep::to_json(set) + "\n";
  return BatchSweep{*job.sweep->batch, sets.size(),
                    job.name.str() + "-" + wire::sha256_hex(text).substr(0, 12),
                    job.launch ? job.launch->region : ""};
}

// If these tags are of a job of the same name on other storage, returns a message; the thing must
// then not be changed or ended. Empty: it is not a namesake's.
std::string namesake(const std::string& what, const wire::Tags& its, const wire::Tags& ours) {
  using wire::value_of;
  const std::string theirs = value_of(its, tag::storage);
  const std::string mine = value_of(ours, tag::storage);
  const std::string name = value_of(ours, tag::job);
  // Without the tag it is older than the tag.
  if (theirs.empty() || mine.empty() || theirs == mine || value_of(its, tag::job) != name)
    return {};
  return two_jobs(name, mine, theirs, "the " + what);
}

// The oldest first; empty if there is no queue yet. Fails if one is a namesake's.
Result<std::vector<Submission>, CallError> submissions(AwsCalls& calls, const BatchSweep& sweep) {
  const wire::BatchQueue& queue = sweep.batch.queue;
  const auto there = TRY(calls.ask(wire::describe_queue(queue.name), wire::decode_queue, queue));
  std::vector<Submission> found;
  if (!there) return found;
  const auto listed = TRY(all_jobs(calls, [&](const std::string& token) {
    return wire::list_jobs(queue.name, sweep.name, token);
  }));
  for (std::size_t first = 0; first < listed.size(); first += described_at_once) {
    std::vector<std::string> ids;
    for (std::size_t i = first; i < std::min(first + described_at_once, listed.size()); ++i)
      ids.push_back(listed[i].id);
    auto jobs = TRY(calls.ask(wire::describe_jobs(ids), wire::decode_jobs));
    for (auto& job : jobs) {
      const auto foreign = namesake("sweep " + job.id, job.tags, sweep.batch.definition.tags);
      if (!foreign.empty()) return failed(foreign);
      auto list = TRY(list_of(job, sweep));
      found.push_back({std::move(job), std::move(list)});
    }
  }
  std::ranges::stable_sort(found, {}, [](const Submission& it) { return it.job.created; });
  return found;
}

// Each set's job, or its array's child, by index, of its newest submission. Without a status it was
// never submitted.
Result<std::vector<wire::BatchJob>, CallError> states(AwsCalls& calls, const BatchSweep& sweep,
                                                      const std::vector<Submission>& all) {
  std::vector<wire::BatchJob> result(sweep.sets);
  for (const auto& [job, list] : all) {
    for (const auto index : list.indices) result[index] = job;
    for (const auto& [status, many] : job.children) {
      if (many == 0) continue;
      const auto children = TRY(all_jobs(calls, [&, id = job.id, what = status](const auto& token) {
        return wire::list_children(id, what, token);
      }));
      for (const wire::BatchJob& child : children)
        if (child.index && *child.index < list.indices.size())
          result[list.indices[*child.index]] = child;
    }
  }
  return result;
}

wire::BatchSubmission submission_of(const BatchSweep& sweep, const sweep::IndexList& list,
                                    const std::string& definition) {
  wire::BatchSubmission submission{.name = sweep.name,
                                   .queue = sweep.batch.queue.name,
                                   .definition = definition,
                                   .size = list.indices.size(),
                                   .tags = sweep.batch.definition.tags};
  // In an array of all sets each child has its set's index already.
  if (list.indices.size() < sweep.sets || sweep.sets == 1)
    submission.environment[sweep::indices_variable] = sweep::to_text(list);
  return submission;
}

// Submits these sets (all of them: 0 to sets - 1) and returns the job's id. After a lost answer it
// checks whether there is one more submission than `before`.
Result<std::string, CallError> submit_list(AwsCalls& calls, const BatchSweep& sweep,
                                           const sweep::IndexList& list,
                                           const std::string& definition, std::size_t before) {
  const auto call = wire::submit(submission_of(sweep, list, definition));
  if (call.input.size() > payload_limit)
    return failed("the list of indices is longer than AWS Batch takes (30 KiB)");
  auto id = calls.ask(call, wire::decode_submitted);
  if (id || !id.error().unsettled()) return id;
  std::this_thread::sleep_for(settling);
  const auto now = submissions(calls, sweep);
  if (now && now->size() > before) return now->back().job.id;
  return failed(id.error().message + "; see `spotter sweep status` before another try");
}

// Makes what a sweep's jobs need on AWS Batch if it is missing, and updates it if it differs.

using Clock = std::chrono::steady_clock;
// A new environment takes seconds, one that replaces its instances minutes.
constexpr std::chrono::minutes patience{10};
constexpr std::chrono::milliseconds first_pause{200};
constexpr std::chrono::milliseconds longest_pause{5'000};

void say(const std::string& what, const std::string& name, const char* how) {
  std::fprintf(stderr, "%s %s: %s\n", what.c_str(), name.c_str(), how);
}

// The calls for one kind: an environment or a queue.
template <class Wanted>
struct Kind {
  const char* what;
  wire::AwsCommand (*describe)(const std::string& name);
  Result<std::optional<wire::BatchResource>> (*decode)(std::string_view, const Wanted&);
};

using Found = std::optional<wire::BatchResource>;

template <class Wanted>
Result<Found, CallError> look(AwsCalls& calls, const Kind<Wanted>& kind, const Wanted& wanted) {
  return calls.ask(kind.describe(wanted.name), kind.decode, wanted);
}

// Waits until AWS Batch no longer changes it. A thing that does not exist is settled, too.
template <class Wanted>
Result<Found, CallError> settled(AwsCalls& calls, const Kind<Wanted>& kind, const Wanted& wanted) {
  const auto until = Clock::now() + patience;
  auto pause = first_pause;
  while (true) {
    auto found = look(calls, kind, wanted);
    if (!found || !*found || (*found)->status == "VALID") return found;
    const std::string name = std::string(kind.what) + " " + wanted.name;
    if ((*found)->status == "INVALID") return failed(name + " is INVALID: " + (*found)->reason);
    if (Clock::now() > until)
      return failed(name + " is still " + (*found)->status + ": " + (*found)->reason);
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, longest_pause);
  }
}

// A lost answer does not matter: the state is read again.
Result<void, CallError> change(AwsCalls& calls, const wire::AwsCommand& call) {
  const auto done = calls.perform(call);
  if (done || done.error().unsettled()) return {};
  return tl::unexpected(done.error());
}

template <class Wanted>
Result<void, CallError> provide(AwsCalls& calls, const Kind<Wanted>& kind, const Wanted& wanted) {
  constexpr int most_changes = 2;
  for (int changes = 0;; ++changes) {
    const auto found = TRY(settled(calls, kind, wanted));
    const std::string what = std::string(kind.what) + " " + wanted.name;
    const auto foreign = found ? namesake(what, found->tags, wanted.tags) : std::string();
    if (!foreign.empty()) return failed(foreign);
    if (found && found->differs.empty()) return {};
    if (changes == most_changes)
      return failed(what +
                    " does not become what sweep.batch says; some of it cannot be changed: "
                    "delete it, or give another name");
    say(kind.what, wanted.name, found ? "is changed" : "is made");
    TRY(change(calls, found ? wire::update(wanted, *found) : wire::create(wanted)));
  }
}

// Makes or updates what the jobs need, and prints that to stderr; returns the definition's ARN.
Result<std::string, CallError> prepare(AwsCalls& calls, const BatchSweep& sweep) {
  const auto& [environment, queue, definition] = sweep.batch;
  const Kind<wire::BatchEnvironment> environments{"compute environment", wire::describe_environment,
                                                  wire::decode_environment};
  TRY(provide(calls, environments, environment));
  const Kind<wire::BatchQueue> queues{"job queue", wire::describe_queue, wire::decode_queue};
  TRY(provide(calls, queues, queue));
  const auto same =
      calls.ask(wire::describe_definitions(definition.name), wire::decode_definition, definition);
  if (!same || !same->empty()) return same;
  say("job definition", definition.name, "a revision is registered");
  return calls.ask(wire::register_definition(definition), wire::decode_registered);
}

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
Result<Opened> open(const SweepCommandOptions& options) {
  auto sweep = TRY(of_input(batch_sweep(options.job)));
  auto calls = TRY(calls_in(sweep.region));
  auto all = TRY(submissions(*calls, sweep));
  return Opened{std::move(sweep), std::move(calls), std::move(all)};
}

Result<int> print_submission(const SweepCommandOptions& options) {
  const auto sweep = TRY(of_input(batch_sweep(options.job)));
  const auto calls = calls_in(sweep.region);
  if (calls && !passes(examine_room(**calls, sweep.batch))) return wrong_input;
  const auto& [environment, queue, definition] = sweep.batch;
  print("# Each waits until the one before is VALID. What is there already is updated instead.");
  for (const auto& call :
       {wire::create(environment), wire::create(queue), wire::register_definition(definition),
        wire::submit(submission_of(sweep, sweep::all_indices(sweep.sets), definition.name))})
    print(wire::command_of(call));
  return 0;
}

Result<int> submit(const SweepCommandOptions& options) {
  if (options.dry_run) return print_submission(options);
  const auto [sweep, calls, all] = TRY(open(options));
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
  if (!passes(examine_room(*calls, sweep.batch))) return wrong_input;
  const auto definition = TRY(prepare(*calls, sweep));
  const auto id =
      TRY(submit_list(*calls, sweep, sweep::all_indices(sweep.sets), definition, all.size()));
  io::complain("sweep", sweep.name + ": " + std::to_string(sweep.sets) +
                            (sweep.sets == 1 ? " set is submitted" : " sets are submitted"));
  print(id);
  return 0;
}

OrderedJson states_json(const BatchSweep& sweep, const std::vector<wire::BatchJob>& states,
                        const std::map<std::string, std::size_t>& counts) {
  OrderedJson document = {{"name", sweep.name}, {"sets", sweep.sets}, {"counts", counts}};
  document["indices"] = OrderedJson::array();
  for (std::size_t index = 0; index < states.size(); ++index) {
    const wire::BatchJob& it = states[index];
    OrderedJson row = {
        {"index", index}, {"status", it.status}, {"job", it.id}, {"reason", it.reason}};
    row["exit_code"] = it.exit_code ? OrderedJson(*it.exit_code) : OrderedJson();
    document["indices"].push_back(std::move(row));
  }
  return document;
}

// Batch says why the set at the head of a queue cannot be placed, as MISCONFIGURATION:... or
// CAPACITY:... https://docs.aws.amazon.com/batch/latest/userguide/job_stuck_in_runnable.html
void print_blocked(const std::vector<wire::BatchJob>& states) {
  for (std::size_t index = 0; index < states.size(); ++index) {
    const wire::BatchJob& it = states[index];
    const auto mark = it.reason.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    if (it.status != "RUNNABLE" || mark == it.reason.npos || mark < 8) continue;
    return print("  waits: " + std::to_string(index) + " (" + it.reason + ")");
  }
}

void print_failures(const std::vector<wire::BatchJob>& states) {
  std::size_t shown = 0;
  for (std::size_t index = 0; index < states.size(); ++index) {
    const wire::BatchJob& it = states[index];
    if (it.status != "FAILED") continue;
    if (++shown > most_failures_shown) return print("  ... (--json has all)");
    const std::string code = it.exit_code ? "exit " + std::to_string(*it.exit_code) + ", " : "";
    print("  failed: " + std::to_string(index) + " (" + code + it.reason + ")");
  }
}

// Exit status: 0 all have succeeded or still run, 1 some have failed.
Result<int> show(const SweepCommandOptions& options) {
  const auto [sweep, calls, all] = TRY(open(options));
  if (all.empty()) return failure(sweep.name + " was not submitted (or a week ago)");
  const auto found = TRY(states(*calls, sweep, all));
  std::map<std::string, std::size_t> counts;
  for (const wire::BatchJob& it : found) ++counts[it.status];
  if (options.json) {
    print(wire::json_text(states_json(sweep, found, counts), 2));
  } else {
    std::string line = sweep.name + ": " + std::to_string(sweep.sets) + " sets";
    for (const std::string& status : in_order)
      if (counts.contains(status)) line += ", " + std::to_string(counts[status]) + " " + status;
    print(line);
    print_blocked(found);
    print_failures(found);
  }
  return counts.contains("FAILED") ? 1 : 0;
}

Result<int> cancel(const SweepCommandOptions& options) {
  const auto [sweep, calls, all] = TRY(open(options));
  std::size_t cancelled = 0;
  for (const Submission& it : all) {
    if (is_over(it.job.status)) continue;
    TRY(calls->perform(wire::terminate(it.job.id, options.reason)));
    print(it.job.id);
    ++cancelled;
  }
  if (cancelled == 0) io::complain("sweep", sweep.name + ": nothing of it is under way");
  return 0;
}

Result<int> retry(const SweepCommandOptions& options) {
  if (!options.failed) return mistake("which sets? --failed: those that have failed");
  const auto [sweep, calls, all] = TRY(open(options));
  if (all.empty()) return failure(sweep.name + " was not submitted (or a week ago)");
  const auto found = TRY(states(*calls, sweep, all));
  sweep::IndexList list{{}, sweep.sets};
  for (std::size_t index = 0; index < found.size(); ++index)
    if (found[index].status == "FAILED") list.indices.push_back(index);
  if (list.indices.empty()) {
    io::complain("sweep", sweep.name + ": no set has failed");
    return 0;
  }
  if (options.dry_run) {
    const auto call = wire::submit(submission_of(sweep, list, sweep.batch.definition.name));
    print(wire::command_of(call));
    return 0;
  }
  const auto definition = TRY(prepare(*calls, sweep));
  const auto id = TRY(submit_list(*calls, sweep, list, definition, all.size()));
  io::complain("sweep", sweep.name + ": tried again are the sets " + sweep::to_text(list));
  print(id);
  return 0;
}

void add_batch(CLI::App& sweep, int& status) {
  auto options = std::make_shared<SweepCommandOptions>();
  const auto add = [&](const char* name, const char* what,
                       Result<int> (*run)(const SweepCommandOptions&)) {
    auto* command = sweep.add_subcommand(name, what);
    command->add_option("job", options->job, "The job's description")->capture_default_str();
    command->callback([options, &status, run] { status = io::ended("sweep", run(*options)); });
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
}

// `spotter sweep results`.

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
Result<Sweep> read_sweep(const ResultsOptions& options, bool job_is_named) {
  std::error_code error;
  const bool is_there = fs::exists(options.job, error);
  if (!options.from.empty() && !job_is_named && !is_there) return Sweep{options.from, {}, {}, {}};
  const auto job = TRY(job_here(options.job));
  if (!job.sweep) return mistake(options.job + " has no `sweep:`");
  auto sets = TRY(sets_of(job));
  Sweep sweep{options.from, std::move(sets), job.sweep->objective, {}};
  if (!sweep.place.empty()) return sweep;
  sweep.place = TRY(place_of_results(job));
  sweep.job = job;
  return sweep;
}

bool write(const std::string& path, const std::string& text) {
  const bool to_stdout = path == "-";
  std::FILE* file = to_stdout ? stdout : std::fopen(path.c_str(), "we");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr && (to_stdout ? std::fflush(file) : std::fclose(file)) != 0) written = false;
  if (!written) io::complain("sweep", "cannot write " + path, 1);
  return written;
}

Result<int> show(const ResultsOptions& options, bool job_is_named) {
  if (options.csv == "-" && options.json == "-")
    return mistake("--csv and --json cannot both go to the standard output");
  const auto sweep = TRY(read_sweep(options, job_is_named));
  auto [all, warnings] = TRY(gather(sweep.place, sweep.sets, sweep.job ? &*sweep.job : nullptr));
  for (const std::string& warning : warnings) io::complain("sweep", warning, 0);
  if (all.empty()) return failure("there is nothing to show");
  const auto order = TRY(of_input(sort_order(all, options.sort, sweep.objective)));
  sort(all, order);
  const bool no_table = options.csv == "-" || options.json == "-";
  if (no_table && !order.note.empty()) io::complain("sweep", order.note, 0);
  const bool at_terminal = ::isatty(STDOUT_FILENO) != 0;
  const Screen screen = at_terminal ? Screen{window().columns, most_rows} : Screen{};
  bool good = no_table || write("-", to_table(all, order, screen));
  if (!options.csv.empty()) good = write(options.csv, to_csv(all)) && good;
  if (!options.json.empty()) good = write(options.json, to_json(all)) && good;
  return good ? 0 : 1;
}

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
  command->callback(
      [options, job, &status] { status = io::ended("sweep", show(*options, job->count() > 0)); });
}

}  // namespace

void add_sweep(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("sweep", "Many experiments of one job");
  command->require_subcommand(1);
  auto options = std::make_shared<SweepOptions>();
  auto* all = command->add_subcommand(
      "expand", "Prints the parameter sets, a line each: a list as `sweep.parameters` reads it");
  all->add_option("job", options->job, "The job's description")->capture_default_str();
  all->add_option("--index", options->index, "Only this one, counted from 0");
  all->add_flag("--commands", options->commands,
                "Prints each set's command, made from trainer.command");
  all->callback([options, &status] { status = io::ended("sweep", expand(*options)); });
  add_batch(*command, status);
  add_results(*command, status);
}

}  // namespace spotter::command
